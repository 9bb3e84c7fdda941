/**
 * The rows of cut batches: in memory for those in use, on disk until no checkpoint needs them, and made again from the row list and the row file when a file is gone. A file
 * is a row list with tokens under a hash.
 */
import { hash } from 'node:crypto';
import { open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { decodeRowList, encodeRowList, type ListedRow, type RowTokens } from '../../events/row-list.ts';
import { makeDurable } from '../../store/blobs/durable-folders.ts';
import type { Row, RowStatus } from '../cut/row.ts';
import { listedRow } from './cut-batch.ts';

export type BatchName = { readonly n: number; readonly batchId: string };

export type BatchRows = {
  /** Rows of a batch that is about to be cut: in memory, until `keep` forgets it. */
  readonly hold: (batch: BatchName, rows: readonly Row[]) => void;
  /** Rows of a batch that was just cut. Durable on this machine when it resolves. */
  readonly put: (batch: BatchName, rows: readonly Row[]) => Promise<void>;
  /** null = neither in memory nor on disk. */
  readonly get: (batch: BatchName) => Promise<readonly Row[] | null>;
  /** Forgets every batch but these, and from memory all but the first `inMemory` of them. Of batches that are asked for beside these only the last few stay. */
  readonly keep: (batches: readonly BatchName[], inMemory: number) => Promise<void>;
};

/** So many batches that are not in use stay in memory, and so many that are not wanted stay on disk: somebody may read a whole feed of long ago. */
const READ_LATELY = 2;

export async function openBatchRows(directory: string): Promise<BatchRows> {
  await makeDurable(directory);
  /** Asked for last comes last. */
  const memory = new Map<string, readonly Row[]>();
  let inUse = new Set<string>();
  let wanted: ReadonlySet<string> | null = null;
  let strays: string[] = [];
  /** On their way to the disk. */
  const writing = new Map<string, Promise<void>>();
  const nameOf = ({ n, batchId }: BatchName): string => `${String(n).padStart(10, '0')}-${batchId.slice(0, 32)}.batch`;
  const remember = (name: string, rows: readonly Row[]): void => {
    memory.delete(name);
    memory.set(name, rows);
    const others = [...memory.keys()].filter((each) => !inUse.has(each));
    for (const each of others.slice(0, -READ_LATELY)) memory.delete(each);
  };
  const removeStrays = async (name: string): Promise<void> => {
    if (wanted === null || wanted.has(name) || inUse.has(name)) return;
    strays = [...strays.filter((each) => each !== name), name];
    for (const each of strays.splice(0, Math.max(0, strays.length - READ_LATELY))) await rm(join(directory, each), { force: true });
  };
  return {
    hold: (batch, rows) => {
      inUse.add(nameOf(batch));
      memory.set(nameOf(batch), rows);
    },
    put: (batch, rows) => {
      const name = nameOf(batch);
      remember(name, rows);
      const known = writing.get(name);
      if (known !== undefined) return known;
      const write = writeRows(join(directory, name), rows)
        .finally(() => writing.delete(name))
        .then(() => removeStrays(name));
      writing.set(name, write);
      return write;
    },
    get: async (batch) => {
      const name = nameOf(batch);
      const rows = memory.get(name) ?? (await readRows(join(directory, name)));
      if (rows !== null) remember(name, rows);
      return rows;
    },
    keep: async (batches, inMemory) => {
      const names = batches.map(nameOf);
      inUse = new Set(names.slice(0, inMemory));
      for (const name of memory.keys()) if (!inUse.has(name)) memory.delete(name);
      const kept = new Set(names);
      wanted = kept;
      strays = [];
      for (const file of await readdir(directory)) {
        if (!kept.has(file) && !writing.has(basename(file, '.part'))) await rm(join(directory, file), { force: true });
      }
    },
  };
}

async function writeRows(path: string, rows: readonly Row[]): Promise<void> {
  const body = await encodeRowList(rows.map(listedRow), rows);
  const file = await open(`${path}.part`, 'w', 0o600);
  try {
    await file.writev([hash('sha256', body, 'buffer'), body]);
    await file.datasync();
  } finally {
    await file.close();
  }
  await rename(`${path}.part`, path);
}

async function readRows(path: string): Promise<readonly Row[] | null> {
  const bytes = await readFile(path).catch(() => null);
  if (bytes === null || bytes.length < 32 || !hash('sha256', bytes.subarray(32), 'buffer').equals(bytes.subarray(0, 32))) return null;
  const { rows, tokens } = await decodeRowList(bytes.subarray(32));
  return tokens === null ? null : rows.map((row, i) => rowOf(row, tokens[i] as RowTokens));
}

/** A listed row with its tokens. */
export function rowOf(listed: ListedRow, tokens: RowTokens): Row {
  const { hasReference, ...row } = listed;
  if (hasReference !== (tokens.refLogprobs !== null)) throw new RangeError(`row ${listed.rowId} and its tokens do not belong together`);
  return { ...row, status: listed.status as RowStatus, ...tokens };
}
