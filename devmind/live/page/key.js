// The key that opens the WebSocket: it comes behind the # of the first address and stays in this tab and other tabs of the page.

const KEPT = "devmind-key";
const PATIENCE_MS = 2000; // so long other tabs of this page may take to hand it over, on a busy machine too

let own = "";

/** The key of a life that is over: nobody gets it any more. */
export function forgetKey() {
  own = "";
  sessionStorage.removeItem(KEPT);
}

/** The key, or "" when neither this tab nor another one has it. */
export async function ownKey() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given) {
    sessionStorage.setItem(KEPT, given);
    history.replaceState(null, "", location.pathname); // so that nobody copies it with the address
  }
  const sisters = new BroadcastChannel(KEPT); // pages of this host and this port only
  own = sessionStorage.getItem(KEPT) || (await asked(sisters));
  if (own) sessionStorage.setItem(KEPT, own);
  sisters.onmessage = ({ data }) => data === "ask" && own && sisters.postMessage({ key: own });
  return own;
}

function asked(sisters) {
  return new Promise((resolve) => {
    sisters.onmessage = ({ data }) => data.key && resolve(data.key);
    sisters.postMessage("ask");
    setTimeout(() => resolve(""), PATIENCE_MS);
  });
}
