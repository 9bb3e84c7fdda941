/** Every special function, interval and test by value against SciPy and statsmodels, and pass@k against the code of its paper. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { test } from 'node:test';
import { findPython } from '../../../e2e/python.ts';
import { seededRandom } from '../../../base/random.ts';
import { clopperPearson, intervalOverTasks, wilson } from './interval.ts';
import { quantileOf } from './moments.ts';
import { holm, mcNemar, pairedT } from './paired.ts';
import { passAtK } from './pass-at-k.ts';
import { signFlip } from './sign-flip.ts';
import { fairBinomialCdf, normalQuantile, studentQuantile, studentTwoSided } from './special-functions.ts';

const found = await findPython({ packages: ['scipy==1.16.3', 'statsmodels==0.14.6', 'numpy==2.3.5', 'pandas==2.3.3'], imports: ['scipy.stats', 'statsmodels.api'] }); // prettier-ignore
const skip = 'missing' in found ? found.missing : false;

const random = seededRandom(11);
const list = (n: number, make: () => number): number[] => Array.from({ length: n }, make);
const share = (): number => Math.round(random.next() * 8) / 8;
const sizes = [2, 3, 7, 15, 40, 200];
const CASES = {
  studentQuantile: [0.6, 0.8, 0.9, 0.975, 0.995, 0.9995].flatMap((p) => [1, 2, 3, 7, 29, 99, 1_000, 100_000].map((df): [number, number] => [p, df])),
  studentTwoSided: [0, 0.3, 1, 2.5, 12, 60].flatMap((t) => [1, 2, 5, 29, 400].map((df): [number, number] => [t, df])),
  normalQuantile: [0.5, 0.8, 0.975, 0.995, 0.99999],
  fairBinomialCdf: [[0, 1], [2, 9], [40, 100], [480, 1_000], [3, 400]] as [number, number][],
  shares: [[0, 8], [8, 8], [1, 8], [3, 30], [29, 30], [150, 301], [1, 1]].flatMap(([c, n]) => [0.9, 0.95, 0.99].map((confidence): [number, number, number] => [c as number, n as number, confidence])),
  samples: sizes.map((n) => list(n, () => random.next() * 3 - 1)),
  pairs: sizes.map((n): [number[], number[]] => [list(n, share), list(n, share)]).filter(([a, b]) => new Set(a.map((each, place) => each - (b[place] as number))).size > 1),
  smallPairs: [3, 5, 8, 10].map((n): [number[], number[]] => [list(n, share), list(n, share)]),
  mcNemar: [[1, 9], [0, 4], [12, 15], [30, 61]] as [number, number][],
  holm: [[0.01, 0.04, 0.03], [0.2, 0.001, 0.9, 0.04], [0.5]],
  passAtK: [[8, 3, 2], [200, 17, 100], [1_030, 4, 515], [5_000, 1, 2_500], [10, 0, 3], [10, 9, 2]] as [number, number, number][],
}; // prettier-ignore

type Reference = Record<'studentQuantile' | 'studentTwoSided' | 'normalQuantile' | 'fairBinomialCdf' | 'pairedP' | 'signFlip' | 'mcNemar' | 'passAtK', number[]> &
  Record<'wilson' | 'clopperPearson' | 'oneSample' | 'pairedInterval' | 'holm' | 'quantiles', number[][]>; // prettier-ignore

async function reference(python: string): Promise<Reference> {
  const child = spawn(python, [join(import.meta.dirname, 'reference.py')], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify(CASES));
  return (await json(child.stdout)) as Reference;
}

function same(name: string, actual: readonly (number | null)[], expected: readonly number[] | undefined, relative = 1e-9): void {
  assert.equal(actual.length, expected?.length, name);
  for (const [place, value] of actual.entries()) {
    const wanted = expected?.[place] as number;
    assert.ok(value !== null && Math.abs(value - wanted) <= relative * Math.max(1e-3, Math.abs(wanted)), `${name}[${place}]: ${value} is not ${wanted}`);
  }
} // prettier-ignore

test('values equal those of SciPy and statsmodels', { skip, timeout: 300_000 }, async () => {
  if ('missing' in found) return;
  const expected = await reference(found.python);
  same('studentQuantile', CASES.studentQuantile.map(([p, df]) => studentQuantile(p, df)), expected.studentQuantile);
  same('studentTwoSided', CASES.studentTwoSided.map(([t, df]) => studentTwoSided(t, df)), expected.studentTwoSided);
  same('normalQuantile', CASES.normalQuantile.map((p) => normalQuantile(p)), expected.normalQuantile);
  same('fairBinomialCdf', CASES.fairBinomialCdf.map(([k, n]) => fairBinomialCdf(k, n)), expected.fairBinomialCdf);
  for (const [place, [c, n, confidence]] of CASES.shares.entries()) {
    const [ours, exact] = [wilson(c, n, confidence), clopperPearson(c, n, confidence)];
    same('wilson', [ours.low, ours.high], expected.wilson[place]);
    same('clopperPearson', [exact.low, exact.high], expected.clopperPearson[place]);
  }
  for (const [place, sample] of CASES.samples.entries()) {
    const { low, high } = intervalOverTasks(sample, { confidence: 0.95, share: false });
    same('oneSample', [low, high], expected.oneSample[place]);
    const sorted = sample.toSorted((a, b) => a - b);
    same('quantiles', [0.1, 0.5, 0.9, 0.99].map((p) => quantileOf(sorted, p)), expected.quantiles[place]);
  }
  for (const [place, [a, b]] of CASES.pairs.entries()) {
    const { p, low, high } = pairedT(a.map((each, task) => each - (b[task] as number)), 0.95);
    same('pairedP', [p], [expected.pairedP[place] as number]);
    same('pairedInterval', [low, high], expected.pairedInterval[place]);
  }
  const flips = CASES.smallPairs.map(([a, b]) => signFlip(a.map((each, task) => each - (b[task] as number)), { resamples: 1, random }).p);
  same('signFlip', flips, expected.signFlip);
  same('mcNemar', CASES.mcNemar.map(([b, c]) => mcNemar(b, c).p), expected.mcNemar);
  for (const [place, ps] of CASES.holm.entries()) same('holm', holm(ps), expected.holm[place]);
  same('passAtK', CASES.passAtK.map(([n, c, k]) => passAtK(n, c, k)), expected.passAtK);
}); // prettier-ignore
