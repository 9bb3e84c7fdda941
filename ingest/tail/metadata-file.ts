/** metadata.json beside a file of verifiers v0 rows: it describes their run, and may come and change later than they do. */
import { readFile, stat, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isRecord, type JsonRecord } from '../importers/json-value.ts';
import { MAX_LINE_BYTES } from '../importers/line-reader.ts';
import { jsonReader } from '../importers/read-json.ts';
import { mapRow } from './map-records.ts';
import type { Place } from './place.ts';
import { readAt } from './read-at.ts';
import { SETTLE_MS, type Tailing } from './tailing.ts';

export type Metadata = { readonly value: JsonRecord; readonly changedMs: number };

export async function readMetadata(path: string): Promise<Metadata | null> {
  const at = join(dirname(path), 'metadata.json');
  try {
    const { mtimeMs } = await stat(at);
    const read = jsonReader()(await readFile(at));
    return read.ok && isRecord(read.value) ? { value: read.value, changedMs: mtimeMs } : null;
  } catch {
    return null;
  }
}

/** The first rows take the name of their run from metadata.json: it is given a moment to appear. */
export async function waitsForMetadata(path: string, place: Place, { options, firstSeen, later }: Tailing): Promise<boolean> {
  if (place.format !== 'verifiers-v0' || Object.keys(place.pinned ?? {}).length > 0 || options.once) return false;
  const now = options.clock.monotonicMs();
  const since = firstSeen.get(path) ?? now;
  firstSeen.set(path, since);
  if (now - since >= SETTLE_MS || (await readMetadata(path)) !== null) return false;
  later.add(path);
  return true;
}

/** metadata.json is written again when a run goes on or ends: its run is described again then. */
export async function tellMetadata(path: string, place: Place, file: FileHandle, work: Tailing): Promise<Place | null> {
  const [key] = Object.keys(place.pinned ?? {});
  if (place.format !== 'verifiers-v0' || key === undefined || place.lines === 0) return null;
  const metadata = await readMetadata(path);
  if (metadata === null || metadata.changedMs === place.metadataMs) return null;
  const first = await readAt(file, 0, place.offset, { maxLineBytes: work.options.maxLineBytes ?? MAX_LINE_BYTES });
  if (first.kind !== 'lines') return null;
  const bytes = first.bytes.subarray(0, first.bytes.indexOf(0x0a));
  const value = work.read(bytes);
  if (!value.ok) return null;
  const mapped = mapRow(
    value.value,
    { number: 1, bytes },
    { pinned: { ...place.pinned }, metadata: metadata.value, options: work.mapping },
  );
  if (!mapped.ok) return null;
  await work.lanes.send([mapped.value.runEvent], { path, line: 1 });
  return { ...place, metadataMs: metadata.changedMs };
}
