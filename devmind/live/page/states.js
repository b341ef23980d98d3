// The header's texts about the connection and the program behind it.

const RESTART = (command) => `start it again with “${command}”`;

export const STATES = {
  connected: () => "awake",
  paused: () => "paused",
  lost: () => "connection lost, trying again …",
  silent: (command) => `no answer; if devmind has ended, ${RESTART(command)}`,
  ended: (command) => `devmind has ended; ${RESTART(command)}`,
  stranger: () => "devmind was started again: open the new address it printed",
  keyless: () => "this tab was not opened by the address devmind printed: go to the tab that was",
};

/** States that end the connection. */
export const OVER = ["silent", "ended", "stranger", "keyless"];
