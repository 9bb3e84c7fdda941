/** Places survive what happens to files between two starts: rotation, renaming, another file under an old name. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, renameSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Place } from './place.ts';
import { placesIn, type Places } from './places.ts';
import { markAt } from './read-at.ts';

function inFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'tapedeck-places-'));
  return use(folder).finally(() => rmSync(folder, { recursive: true, force: true }));
}

/** Looks at a file as a round does: true when it is known. Takes it to its end; the place moves at once or, with `moved`, when the round ends. */
async function look(places: Places, folder: string, path: string, moved?: Place[]): Promise<boolean> {
  const file = await open(join(folder, path), 'r');
  try {
    const stat = await file.stat();
    const known = await places.find(path, stat, file);
    const begun: Place = { path, dev: stat.dev, ino: stat.ino, kind: 'lines', format: 'verifiers-v1', reason: null, offset: 0, lines: 0, mark: '', size: -1, changedMs: -1 }; // prettier-ignore
    const next = { ...(known ?? begun), dev: stat.dev, ino: stat.ino, offset: stat.size, mark: await markAt(file, stat.size) };
    if (moved === undefined) places.set(next);
    else moved.push(next);
    return known !== null;
  } finally {
    await file.close();
  }
}

const restarted = (folder: string, places: Places): Places => placesIn(folder, JSON.parse(JSON.stringify(places.all())) as Place[]);

test('a renamed file that is looked for still does not take the place of the file that has its name now', () =>
  inFolder(async (folder) => {
    writeFileSync(join(folder, 'a.jsonl'), 'first\n');
    const places = placesIn(folder, []);
    assert.equal(await look(places, folder, 'a.jsonl'), false);
    renameSync(join(folder, 'a.jsonl'), join(folder, 'a.jsonl.1'));
    writeFileSync(join(folder, 'a.jsonl'), 'second\n');
    assert.equal(await look(places, folder, 'a.jsonl'), false);
    // killed before a.jsonl.1 was looked at
    const next = restarted(folder, places);
    assert.equal(await look(next, folder, 'a.jsonl'), true);
    assert.equal(await look(next, folder, 'a.jsonl.1'), true);
    assert.deepEqual(next.all().map(({ path }) => path).sort(), ['a.jsonl', 'a.jsonl.1']); // prettier-ignore
  }));

test('a renamed file that nobody finds again is forgotten by the run after the next', () =>
  inFolder(async (folder) => {
    writeFileSync(join(folder, 'a.jsonl'), 'first\n');
    const places = placesIn(folder, []);
    await look(places, folder, 'a.jsonl');
    renameSync(join(folder, 'a.jsonl'), join(folder, 'elsewhere'));
    writeFileSync(join(folder, 'a.jsonl'), 'second\n');
    await look(places, folder, 'a.jsonl');
    places.forgetLost();
    assert.equal(places.all().length, 2);
    const next = restarted(folder, places);
    await look(next, folder, 'a.jsonl');
    next.forgetLost();
    assert.deepEqual(next.all().map(({ offset }) => offset), ['second\n'.length]); // prettier-ignore
  }));

const NAMES = ['a', 'b', 'c'] as const;
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('write' as const), name: fc.constantFrom(...NAMES) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('rename' as const), name: fc.constantFrom(...NAMES), to: fc.constantFrom(...NAMES) }) }, // prettier-ignore
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('rotate' as const), name: fc.constantFrom(...NAMES), to: fc.constantFrom(...NAMES) }) }, // prettier-ignore
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('remove' as const), name: fc.constantFrom(...NAMES) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('look' as const), name: fc.constantFrom(...NAMES) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('round ends' as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('restart' as const) }) },
);

test('whatever is renamed, replaced and removed: after everything was looked at, everything is known, before a restart and after', () =>
  fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), (steps) =>
      inFolder(async (folder) => {
        let places = placesIn(folder, []);
        let moved: Place[] = [];
        let written = 0;
        const end = (): void => {
          for (const place of moved) places.set(place);
          moved = [];
        };
        const at = (name: string): string => join(folder, name);
        for (const each of steps) {
          if (each.kind === 'restart') {
            places = restarted(folder, places);
            moved = [];
          } else if (each.kind === 'round ends') end();
          else if (each.kind === 'write') writeFileSync(at(each.name), `${written++}\n`, { flag: 'a' });
          else if (!existsSync(at(each.name))) continue;
          else if (each.kind === 'rotate') {
            renameSync(at(each.name), at(each.to));
            writeFileSync(at(each.name), `${written++}\n`, { flag: 'a' });
          } else if (each.kind === 'rename') renameSync(at(each.name), at(each.to));
          else if (each.kind === 'remove') unlinkSync(at(each.name));
          else if (!moved.some(({ path }) => path === each.name)) await look(places, folder, each.name, moved);
        }
        end();
        const there = await readdir(folder);
        for (const name of there) await look(places, folder, name);
        for (let start = 0; start < 2; start++) {
          for (const name of there) assert.equal(await look(places, folder, name), true, `${name} is known at start ${start}`);
          assert.ok(places.all().length <= steps.length);
          places = restarted(folder, places);
        }
      }),
    ),
    { numRuns: 500 },
  ));
