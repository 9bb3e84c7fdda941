import type { Clock } from './clock.ts';
import type { Random } from './random.ts';

const HEX = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, '0'));
const CANONICAL = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** True for the canonical lower-case text form, any version. */
export function isUuid(text: string): boolean {
  return text.length === 36 && CANONICAL.test(text);
}

/** Canonical text of 16 bytes starting at `at`. */
export function uuidText(bytes: Uint8Array, at = 0): string {
  const h = (i: number): string => HEX[bytes[at + i] as number] as string;
  return `${h(0)}${h(1)}${h(2)}${h(3)}-${h(4)}${h(5)}-${h(6)}${h(7)}-${h(8)}${h(9)}-${h(10)}${h(11)}${h(12)}${h(13)}${h(14)}${h(15)}`;
}

/** Time-ordered ids (RFC 9562 version 7): 48 bits of milliseconds, the rest random. */
export function uuidV7(clock: Clock, random: Random): string {
  const bytes = random.bytes(new Uint8Array(16));
  const ms = Math.floor(clock.nowMicros() / 1000);
  for (let i = 0; i < 6; i++) bytes[i] = Math.floor(ms / 2 ** (8 * (5 - i))) % 256;
  bytes[6] = 0x70 | ((bytes[6] as number) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] as number) & 0x3f);
  return uuidText(bytes);
}

/** An id that is a pure function of content (RFC 9562 version 8): the first 16 bytes of `digest` with version and variant set. */
export function uuidV8(digest: Uint8Array): string {
  const bytes = digest.slice(0, 16);
  bytes[6] = 0x80 | ((bytes[6] as number) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] as number) & 0x3f);
  return uuidText(bytes);
}
