/**
 * What the key of a request allows, handed from the check at the edge to the routes, which belong to other folders. Kept beside the request object and gone with it.
 * Null for a request to a server without keys: everything is allowed then.
 */
import type { KeyLimits, KeyRole } from './key-record.ts';

export type Access = {
  /** Id of the key. */
  readonly key: string;
  /** Its project, or `*`. */
  readonly project: string;
  readonly role: KeyRole;
  readonly limits: KeyLimits;
};

const granted = new WeakMap<object, Access>();

/** `request` is the request object of Node. */
export function grantAccess(request: object, access: Access): void {
  granted.set(request, access);
}

export function accessOf(request: object): Access | null {
  return granted.get(request) ?? null;
}
