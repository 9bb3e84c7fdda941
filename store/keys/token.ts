/**
 * The text of an API key: `td_<id>_<secret><checksum>`. The id (10 characters) names the key in lists and logs and is no secret. The secret is 256 random bits
 * (43 characters), the checksum the CRC-32 of all that stands before it (6 characters), so that a mistyped key is told from an unknown one, and a program that
 * searches texts for leaked keys needs no list of them: /td_[a-z2-7]{10}_[0-9A-Za-z]{49}/. Pure.
 *
 * At rest only sha256(key) is kept. A slow, salted hash protects passwords that people choose; nobody finds 256 random bits by trying, with or without the hash,
 * and a fast hash keeps the check of every request cheap.
 */
import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { fail, ok, type Result } from '../../base/result.ts';
import type { Random } from '../../base/random.ts';

export const TOKEN_PREFIX = 'td_';
const SECRET_BYTES = 32;
const ID_CHARS = 10;
const SECRET_CHARS = 43;
const CHECK_CHARS = 6;
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const FORM = /^td_([a-z2-7]{10})_([0-9A-Za-z]{43})([0-9A-Za-z]{6})$/;

export type NewToken = { readonly id: string; readonly token: string };

export function newToken(random: Random): NewToken {
  const id = Array.from(random.bytes(new Uint8Array(ID_CHARS)), (byte) => BASE32[byte & 31]).join('');
  const secret = base62(BigInt(`0x${Buffer.from(random.bytes(new Uint8Array(SECRET_BYTES))).toString('hex')}`), SECRET_CHARS);
  const body = `${TOKEN_PREFIX}${id}_${secret}`;
  return { id, token: body + checksum(body) };
}

/** The id of a key whose form and checksum are right; whether there is such a key is another question. The error never repeats what was given. */
export function idOfToken(token: string): Result<string> {
  const [, id, , check] = FORM.exec(token) ?? [];
  if (id === undefined || check === undefined)
    return fail('unauthorized', 'this is no API key of Tapedeck: they look like td_<id>_<secret>');
  if (checksum(token.slice(0, -CHECK_CHARS)) !== check)
    return fail('unauthorized', 'this API key was mistyped or cut off: its checksum is wrong');
  return ok(id);
}

/** What is kept of a key: lower-case hexadecimal sha256 of its whole text. */
export function hashOfToken(token: string): string {
  return createHash('sha256').update(token, 'utf8').digest('hex');
}

function checksum(body: string): string {
  return base62(BigInt(crc32(body)), CHECK_CHARS);
}

function base62(value: bigint, length: number): string {
  let text = '';
  for (let rest = value; text.length < length; rest /= 62n) text = BASE62.charAt(Number(rest % 62n)) + text;
  return text;
}
