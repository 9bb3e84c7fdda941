import { fail, ok, type Result } from '../base/result.ts';

/** What a body of events is made of. */
export type Media = 'json' | 'ndjson' | 'cbor';

export const MEDIA_TYPES = { json: 'application/json', ndjson: 'application/x-ndjson', cbor: 'application/cbor' } as const satisfies Record<
  Media,
  string
>;

const BY_NAME: Readonly<Record<string, Media>> = {
  'application/json': 'json',
  'application/x-ndjson': 'ndjson',
  'application/ndjson': 'ndjson',
  'application/jsonl': 'ndjson',
  'application/x-jsonlines': 'ndjson',
  'application/cbor': 'cbor',
  'application/cbor-seq': 'cbor',
};
const STRUCTURED = /^application\/[!#$&^_.a-z0-9-]+\+(json|cbor|cbor-seq)$/;
const CHARSET = /;\s*charset\s*=\s*"?([^";\s]*)"?/i;

/** Reads a Content-Type header: the three types above, their common aliases, and the suffixes `+json`, `+cbor`, `+cbor-seq`. Text must be UTF-8. */
export function mediaOf(contentType: string | undefined): Result<Media> {
  const accepted = Object.values(MEDIA_TYPES).join(', ');
  if (contentType === undefined) return fail('unsupported_media_type', `no Content-Type header; send one of ${accepted}`, 'content-type');
  const name = (contentType.split(';', 1)[0] as string).trim().toLowerCase();
  const media = BY_NAME[name] ?? structured(name);
  if (media === undefined) {
    return fail(
      'unsupported_media_type',
      `Content-Type ${JSON.stringify(name.slice(0, 100))} is not supported; send one of ${accepted}`,
      'content-type',
    );
  }
  const charset = CHARSET.exec(contentType)?.[1]?.toLowerCase();
  if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') {
    return fail('unsupported_media_type', `charset ${JSON.stringify(charset.slice(0, 40))} is not supported; send UTF-8`, 'content-type');
  }
  return ok(media);
}

function structured(name: string): Media | undefined {
  const suffix = STRUCTURED.exec(name)?.[1];
  if (suffix === undefined) return undefined;
  return suffix === 'json' ? 'json' : 'cbor';
}
