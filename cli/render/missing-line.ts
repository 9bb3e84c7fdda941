/** One line of the terminal that says how many events are waited for. Nothing where there is no terminal. */
export function tellMissing(events: number): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[Kwaiting: ${events} events are not stored yet`);
}

export function endMissing(): void {
  if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
}
