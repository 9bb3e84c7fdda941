/**
 * Whose segments lie in a spool folder. A session is a folder named by its id, owned by the recorder of that id; one that was taken over is named `<id>~<owner>`. Taking over is a
 * rename, so of several takers one wins. Only sessions of dead owners are taken.
 */
import { readdir, readFile, rename, rm, unlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isUuid } from '../../base/uuid.ts';
import { aliveFile, isAlive } from './alive.ts';

export type Session = { readonly name: string; readonly id: string; readonly owner: string };

/** What owner.json says: for people, and to leave alone what another machine owns on a shared file system. */
export type Owner = { readonly producer: string; readonly host: string; readonly boot: string; readonly pid: number };

export function ownerOf(producer: string): Owner {
  return { producer, host: hostname(), boot: bootId(), pid: process.pid };
}

/** Changes with every start of the machine; empty where there is none to be had. */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}

export async function listSessions(folder: string): Promise<Session[]> {
  const names: string[] = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return names.toSorted().flatMap((name) => {
    const [id = '', owner = id, ...more] = name.split('~');
    return isUuid(id) && isUuid(owner) && more.length === 0 ? [{ name, id, owner }] : [];
  });
}

/**
 * Takes a session whose owner is dead: the path of its folder, or null when the owner lives, another was faster, or it belongs to another machine. `me` must be
 * holding its own alive file.
 */
export async function takeOver(folder: string, session: Session, me: string): Promise<string | null> {
  if (session.owner === me || (await isAlive(aliveFile(folder, session.owner)))) return null;
  if (await isForeign(join(folder, session.name))) return null;
  const taken = join(folder, `${session.id}~${me}`);
  try {
    await rename(join(folder, session.name), taken);
    return taken;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** Of a machine with another name and another start: it may be running, and its sockets cannot be reached from here. */
async function isForeign(path: string): Promise<boolean> {
  try {
    const owner = JSON.parse(await readFile(join(path, 'owner.json'), 'utf8')) as Partial<Owner>;
    return owner.host !== hostname() && owner.boot !== bootId();
  } catch {
    // killed before it was written: nothing was recorded then either
    return false;
  }
}

/** Removes a drained session, and the alive files of owners that have gone and own nothing any more. */
export async function removeSession(folder: string, path: string): Promise<void> {
  await rm(path, { recursive: true, force: true });
  await sweepAliveFiles(folder);
}

export async function sweepAliveFiles(folder: string): Promise<void> {
  const owners = new Set((await listSessions(folder)).flatMap(({ id, owner }) => [id, owner]));
  for (const name of await readdir(folder).catch(() => [])) {
    const owner = name.endsWith('.alive') ? name.slice(0, -'.alive'.length) : '';
    if (!isUuid(owner) || owners.has(owner) || (await isAlive(join(folder, name)))) continue;
    await unlink(join(folder, name)).catch(() => {});
  }
}
