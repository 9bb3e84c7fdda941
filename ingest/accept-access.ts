/** What the key behind a request may write: its project, and for an admin the events that remove data. Pure. */
import { ByteWriter } from '../base/byte-writer.ts';
import type { Problem } from '../base/result.ts';
import { encodeCbor, writeHead, writeText } from '../events/codec/cbor-encode.ts';
import { cursorOver, INDEFINITE, MAJOR, readHead } from '../events/codec/cbor-head.ts';
import { DEFAULT_PROJECT, type Envelope } from '../events/envelope.ts';
import { isMap } from '../events/fields.ts';

export type WriterAccess = {
  /** Null: every project. */
  readonly project: string | null;
  readonly isAdmin: boolean;
};

const INDEFINITE_MAP = 0xbf;

/** Events that delete: of a run, or by age. */
const ADMIN_TYPES: ReadonlySet<string> = new Set(['run.deleted', 'project.retention_set']);

export function itemRefusal(event: Pick<Envelope, 'type' | 'project'>, access: WriterAccess | null): Problem | null {
  if (access === null) return null;
  const project = event.project ?? DEFAULT_PROJECT;
  if (access.project !== null && project !== access.project) {
    return {
      code: 'forbidden',
      message: `the key is for the project "${access.project}": leave project out, or use a key of the other one`,
      field: 'project',
    };
  }
  if (!access.isAdmin && ADMIN_TYPES.has(event.type)) {
    return { code: 'forbidden', message: `${event.type} removes data: use a key with the role admin`, field: 'type' };
  }
  return null;
}

/** An event that names no project belongs to that of the key: the field goes into `value` and, in front of the others, into its bytes. */
export function withProject(value: unknown, slice: Uint8Array, access: WriterAccess | null): Uint8Array {
  if (access === null || access.project === null || access.project === DEFAULT_PROJECT) return slice;
  if (!isMap(value) || value['project'] !== undefined) return slice;
  const head = cursorOver(slice, 0, slice.length);
  readHead(head);
  if (head.major !== MAJOR.map) return slice;
  value['project'] = access.project;
  const writer = new ByteWriter(slice.length + access.project.length * 3 + 32);
  if (head.value === INDEFINITE) writer.byte(INDEFINITE_MAP);
  else writeHead(MAJOR.map, head.value + 1, writer);
  writeText('project', writer);
  encodeCbor(access.project, writer);
  writer.bytes(slice.subarray(head.at));
  return writer.take();
}
