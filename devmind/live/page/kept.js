// What a person has chosen on this page. In cookies, since other storage is by port, and devmind takes a new port each time.

const YEAR_S = 31_536_000;

/** Keep a word under a name. */
export function keep(name, value) {
  document.cookie = `devmind-page-${name}=${encodeURIComponent(value)}; path=/; max-age=${YEAR_S}; samesite=strict`;
}

/** What was kept under a name, or "". */
export function kept(name) {
  const start = `devmind-page-${name}=`;
  const found = document.cookie.split("; ").find((cookie) => cookie.startsWith(start));
  return found ? decodeURIComponent(found.slice(start.length)) : "";
}
