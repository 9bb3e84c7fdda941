/** Is a text one of the keys, now? Pure, and in a time that does not depend on how much of the text is right. */
import { timingSafeEqual } from 'node:crypto';
import { fail, ok, type Result } from '../../base/result.ts';
import type { KeyRecord } from './key-record.ts';
import { hashOfToken, idOfToken } from './token.ts';

export type KeyTable = ReadonlyMap<string, KeyRecord>;

/** Compared with when there is no such key, so that an unknown id costs what a known one does. */
const NOBODY = '0'.repeat(64);

/** The key, or `unauthorized` with what is wrong. Whether an id exists is not told: an unknown id and a wrong secret give the same answer. */
export function verifyToken(keys: KeyTable, token: string, nowMicros: number): Result<KeyRecord> {
  const id = idOfToken(token);
  if (!id.ok) return id;
  const record = keys.get(id.value);
  const isEqual = timingSafeEqual(Buffer.from(hashOfToken(token), 'hex'), Buffer.from(record?.hash ?? NOBODY, 'hex'));
  if (record === undefined || !isEqual) return fail('unauthorized', 'this API key is not known here: tapedeck keys create makes one');
  if (record.revoked !== null) return fail('unauthorized', `the API key ${record.id} was revoked: ask for another one`);
  if (record.expires !== null && record.expires * 1e6 <= nowMicros)
    return fail('unauthorized', `the API key ${record.id} has expired: ask for another one`);
  return ok(record);
}
