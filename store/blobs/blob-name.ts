/** A blob's name is the lower-case hex sha256 of its bytes. Every driver names and verifies through this file. */
import { hash } from 'node:crypto';
import { TapedeckError } from '../../base/errors.ts';

const NAME = /^[0-9a-f]{64}$/;

export function blobName(content: Uint8Array): string {
  return hash('sha256', content, 'hex');
}

/** False for anything that cannot be the name of a blob, so that no path or key is ever made from foreign text. */
export function isBlobName(text: string): boolean {
  return NAME.test(text);
}

export function blobMissing(sha256: string): TapedeckError {
  return isBlobName(sha256)
    ? new TapedeckError('blob_missing', `no blob ${sha256} in the store`, { details: { sha256 } })
    : new TapedeckError('blob_missing', 'not the name of a blob: expected 64 lower-case hex digits');
}

/** Returns `content` when its hash is `sha256`; throws `blob_corrupt` otherwise. */
export function verified(content: Uint8Array, sha256: string): Uint8Array {
  const found = blobName(content);
  if (found === sha256) return content;
  throw new TapedeckError('blob_corrupt', `blob ${sha256} holds ${content.length} bytes that hash to ${found}`, {
    details: { sha256, found, bytes: content.length },
  });
}
