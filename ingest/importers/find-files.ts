/** Files to import from what a person names: files, folders (searched through) and globs. */
import { glob, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import { fileBytes } from './file-bytes.ts';
import { isOneDocument, recognise, type Format } from './recognise.ts';

export type FoundFile = {
  readonly path: string;
  /** Bytes on disk. */
  readonly size: number;
  readonly format: Format;
  /** The file is one document, or a list of some; else each line is one. */
  readonly isDocument: boolean;
  /** metadata.json beside a v0 file. */
  readonly metadata: string | null;
};
export type SkippedFile = { readonly path: string; readonly reason: string };

/** How much of a file is looked at to recognise it (after decompression). */
const HEAD_BYTES = 1024 * 1024;
const CANDIDATE = /\.jsonl(\.gz|\.zst)?$|\.atif\.json(\.gz|\.zst)?$|(^|\/)trajectory(\.[\w-]+)?\.json$|(^|\/)rollouts_raw\.json$/;

/**
 * Every file that can be imported, in path order, each once; with the files that were named or looked like rollouts and cannot. Errors: `not_found` when a
 * name matches nothing.
 */
export async function findFiles(names: readonly string[], format?: Format): Promise<{ files: FoundFile[]; skipped: SkippedFile[] }> {
  const paths = new Set<string>();
  for (const name of names) for (const path of await expand(name)) paths.add(path);
  const files: FoundFile[] = [];
  const skipped: SkippedFile[] = [];
  for (const path of [...paths].toSorted()) {
    const judged = await judge(path, format);
    if ('reason' in judged) skipped.push(judged);
    else files.push(judged);
  }
  return { files, skipped };
}

async function expand(name: string): Promise<string[]> {
  const found = await statOf(name);
  if (found?.isFile() === true) return [resolve(name)];
  const isFolder = found?.isDirectory() === true;
  const paths: string[] = [];
  for await (const match of isFolder ? glob('**/*', { cwd: name }) : glob(name)) {
    const path = isFolder ? resolve(name, match) : resolve(match);
    if ((!isFolder || CANDIDATE.test(path)) && (await statOf(path))?.isFile() === true) paths.push(path);
  }
  if (paths.length === 0) {
    const what =
      found === null
        ? 'no such file or folder, and no file matches it as a pattern'
        : 'no *.jsonl, *.jsonl.gz, *.jsonl.zst, trajectory.json, *.atif.json or rollouts_raw.json in it';
    throw new TapedeckError('not_found', `${name}: ${what}`);
  }
  return paths;
}

async function statOf(path: string): Promise<Awaited<ReturnType<typeof stat>> | null> {
  return stat(path).catch(() => null);
}

async function judge(path: string, format: Format | undefined): Promise<FoundFile | SkippedFile> {
  let head: Buffer;
  try {
    head = await headOf(path);
  } catch (error) {
    if (isTapedeckError(error)) return { path, reason: error.message };
    throw error;
  }
  const recognised = recognise(head, basename(path));
  if ('reason' in recognised && format === undefined) return { path, reason: recognised.reason };
  const chosen = format ?? ('format' in recognised ? recognised.format : 'verifiers-v1');
  return {
    path,
    size: (await statOf(path))?.size as number,
    format: chosen,
    isDocument: chosen === 'verifiers-v0-page' || (chosen === 'atif' && isOneDocument(head)),
    metadata: chosen === 'verifiers-v0' || chosen === 'verifiers-v0-page' ? await metadataOf(path) : null,
  };
}

/** The beginning of the content; what can be had of a damaged file. */
async function headOf(path: string): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  try {
    for await (const chunk of fileBytes(path)) {
      parts.push(chunk);
      length += chunk.length;
      if (length >= HEAD_BYTES) break;
    }
  } catch (error) {
    if (length === 0) throw error;
  }
  return Buffer.concat(parts).subarray(0, HEAD_BYTES);
}

/** `metadata.json` of the folder, or `x.metadata.json` of `x.results.jsonl`. */
async function metadataOf(path: string): Promise<string | null> {
  const name = basename(path).replace(/\.(gz|zst)$/, '');
  const own = name === 'results.jsonl' ? null : name.replace(/results\.jsonl$/, 'metadata.json');
  for (const candidate of [own, 'metadata.json']) {
    if (candidate === null || candidate === name) continue;
    const at = join(dirname(path), candidate);
    if ((await statOf(at))?.isFile() === true) return at;
  }
  return null;
}
