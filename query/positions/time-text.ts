/** Points in time as people write them: RFC 3339 with its zone. Pure. */

const TIME = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(Z|[+-]\d\d:\d\d)$/;

/** Microseconds since 1970 UTC, with all six digits of a second kept. Null for what is no such text, and for dates, hours and zones that do not exist: nothing is rolled over. */
export function microsOfText(text: string): bigint | null {
  const found = TIME.exec(text);
  if (found === null) return null;
  const [, year, month, day, hour, minute, second = '00', fraction = '', zone] = found as unknown as string[];
  const midnight = new Date(`${year}-${month}-${day}T00:00:00Z`);
  // a day behind the end of its month is the next month's to `Date`
  if (Number.isNaN(midnight.getTime()) || midnight.getUTCDate() !== Number(day)) return null;
  const whole = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}${zone}`);
  return Number.isNaN(whole) ? null : BigInt(whole) * 1000n + BigInt(fraction.padEnd(6, '0'));
}
