/** Reads events in the order of their numbers from the segment files of one session. One file is in memory at a time. */
import { readFile } from 'node:fs/promises';
import { readSegment, type Damage, type SegmentContent } from './segment-codec.ts';

export type SegmentFile = { readonly path: string; /** How much of it is written, for one that still grows. */ readonly bytes?: number };
export type ReadLimits = { readonly bytes: number; readonly events: number };
/** Either events `from`, `from + 1`, …, or numbers from `from` on that no segment holds, or neither: nothing is left. */
export type SpoolRead = { readonly events: readonly Uint8Array[]; readonly lost: number };

export type SegmentReader = {
  /** `files` oldest first: the writer of a session knows them, a drain lists them. */
  read(files: readonly SegmentFile[], from: number, limits: ReadLimits): Promise<SpoolRead>;
  /** One past the highest number in a file, once it was read; 0 when it holds none. */
  endOf(path: string): number | undefined;
  /** Stretches without a readable record in the files read so far. */
  readonly damage: ReadonlyMap<string, readonly Damage[]>;
};

type Cached = { readonly key: string; readonly content: SegmentContent };

export function segmentReader(): SegmentReader {
  let cached: Cached | null = null;
  const damage = new Map<string, readonly Damage[]>();
  const ends = new Map<string, number>();

  const contentOf = async (file: SegmentFile): Promise<SegmentContent> => {
    const key = `${file.path} ${file.bytes ?? ''}`;
    if (cached?.key === key) return cached.content;
    const bytes = await readFile(file.path).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return Buffer.alloc(0);
      throw error;
    });
    const content = readSegment(file.bytes === undefined ? bytes : bytes.subarray(0, file.bytes));
    if (content.damage.length > 0) damage.set(file.path, content.damage);
    ends.set(file.path, endOf(content));
    cached = { key, content };
    return content;
  };

  const read = async (files: readonly SegmentFile[], from: number, limits: ReadLimits): Promise<SpoolRead> => {
    let next: number | null = null;
    for (const file of files) {
      const events: Uint8Array[] = [];
      let bytes = 0;
      for (const { seq, payload } of (await contentOf(file)).records) {
        if (payload.length === 0 || seq < from + events.length) continue;
        if (seq > from + events.length) {
          if (events.length > 0) break;
          next = next === null ? seq : Math.min(next, seq);
          continue;
        }
        if (events.length > 0 && (bytes + payload.length > limits.bytes || events.length >= limits.events)) break;
        events.push(payload);
        bytes += payload.length;
      }
      if (events.length > 0) return { events, lost: 0 };
    }
    return { events: [], lost: next === null ? 0 : next - from };
  };

  return { read, endOf: (path) => ends.get(path), damage };
}

function endOf({ records }: SegmentContent): number {
  return records.reduce((end, { seq, payload }) => (payload.length > 0 ? Math.max(end, seq + 1) : end), 0);
}
