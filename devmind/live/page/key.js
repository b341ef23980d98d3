// The key that opens the WebSocket: it comes behind the # of the first address and stays in this tab and other tabs of the page.

const KEPT = "devmind-key";
const PATIENCE_MS = 400; // so long other tabs of this page may take to hand it over

/** The key, or "" when neither this tab nor another one has it. */
export async function ownKey() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given) {
    sessionStorage.setItem(KEPT, given);
    history.replaceState(null, "", location.pathname); // so that nobody copies it with the address
  }
  const sisters = new BroadcastChannel(KEPT); // pages of this host and this port only
  const key = sessionStorage.getItem(KEPT) || (await asked(sisters));
  if (key) sessionStorage.setItem(KEPT, key);
  sisters.onmessage = ({ data }) => data === "ask" && key && sisters.postMessage({ key });
  return key;
}

function asked(sisters) {
  return new Promise((resolve) => {
    sisters.onmessage = ({ data }) => data.key && resolve(data.key);
    sisters.postMessage("ask");
    setTimeout(() => resolve(""), PATIENCE_MS);
  });
}
