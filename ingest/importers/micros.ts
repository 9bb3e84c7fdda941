/** Times of verifiers files are epoch seconds as doubles, 0.0 meaning "not set"; ours are integer microseconds, null meaning that. */
import { MAX_MICROS } from '../../events/fields.ts';

/** Nearest microsecond; null for 0.0, for what is no time at all and for times outside 1970 to 2200. */
export function microsOf(seconds: number | null): number | null {
  if (seconds === null || !(seconds > 0)) return null;
  const micros = Math.round(seconds * 1e6);
  return micros > 0 && micros <= MAX_MICROS ? micros : null;
}

/** The way back; exact only for seconds that had at most six decimals. */
export function secondsOf(micros: number | null | undefined): number {
  return (micros ?? 0) / 1e6;
}

/** ISO 8601 with a time zone, up to microseconds; null for anything else: a time without a zone says no instant. */
export function microsOfIso(text: string): number | null {
  const m = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(Z|[+-]\d{2}:\d{2})$/.exec(text);
  if (m === null) return null;
  const ms = Date.parse(`${m[1]}T${m[2]}${m[4]}`);
  const micros = ms * 1000 + Number((m[3] ?? '').padEnd(6, '0').slice(0, 6));
  return Number.isSafeInteger(micros) && micros >= 0 && micros <= MAX_MICROS ? micros : null;
}
