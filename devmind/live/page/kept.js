// A person's choices on this page. In cookies, because other storage depends on the port, and devmind takes a new port each time.

const YEAR_S = 31_536_000;

/** Keep a word under a name. */
export function keep(name, value) {
  document.cookie = `devmind-page-${name}=${encodeURIComponent(value)}; path=/; max-age=${YEAR_S}; samesite=strict`;
}

/** The word kept under a name, or "". */
export function kept(name) {
  const start = `devmind-page-${name}=`;
  const found = document.cookie.split("; ").find((cookie) => cookie.startsWith(start));
  return found ? decodeURIComponent(found.slice(start.length)) : "";
}
