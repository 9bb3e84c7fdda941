/** SQL for the time of an envelope where it stands in for a time that was not given: envelopes hold 0 when the producer knew none, and that says nothing. */
export function knownTime(column: string): string {
  return `nullIf(${column}, toDateTime64(0, 6, 'UTC'))`;
}
