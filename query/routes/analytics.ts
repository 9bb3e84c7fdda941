/** `GET /v1/analytics/*`: eval statistics as of any log position (docs/analytics.md). Every answer carries the position it was computed at. */
import type { FastifyPluginAsync } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { entityId } from '../../events/fields.ts';
import { compareAnswer, type Side } from '../analytics/compare-answer.ts';
import { estimatesOf } from '../analytics/estimates.ts';
import { loadEvaluation, type Selection } from '../analytics/evaluation.ts';
import { readSettings } from '../analytics/settings-differ.ts';
import { estimating, inProject, methodOf, ofRun, selectionOf, several } from './analytics-query.ts';
import { compareAnswer as compareAnswers, estimatesAnswer } from './answers/analytics-answers.ts';
import { answering, contextOf } from './analytics-route.ts';
import { addRunRoutes } from './analytics-run.ts';

const MAX_OTHERS = 20;
const version = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

export const passAtKQuery = z.strictObject({ ...inProject, ...ofRun, ...estimating });

export const compareQuery = z.strictObject({
  ...inProject,
  base: entityId.meta({ description: 'Run of the base.' }),
  baseVersion: version.optional().meta({ description: 'Only its rollouts that began under this policy version.' }),
  other: several(entityId, MAX_OTHERS).meta({ description: 'Runs to compare with the base; may be repeated. Absent: the run of the base, for two of its versions.' }),
  otherVersion: several(version, MAX_OTHERS).meta({ description: 'Policy version of each other; may be repeated.' }),
  env: ofRun.env,
  workType: ofRun.workType,
  ...estimating,
  limit: z.coerce.number().int().min(0).max(100_000).default(200).meta({ description: 'Tasks in each list of the answer.' }),
}); // prettier-ignore

export type AnalyticsRoutesOptions = { readonly store: ColumnStore };

export const analyticsRoutes: FastifyPluginAsync<AnalyticsRoutesOptions> = async (app, { store }) => {
  const ask = answering(app, store);
  addRunRoutes(ask);
  ask(
    '/v1/analytics/pass-at-k',
    'pass@k, pass^k, avg and best@k of a run, with intervals',
    passAtKQuery,
    async (reader, query) => {
      const method = methodOf(query);
      const evaluation = await loadEvaluation(reader, selectionOf(query), method);
      return estimatesOf(evaluation, method, query.k ?? null, contextOf(reader));
    },
    estimatesAnswer,
  );
  ask(
    '/v1/analytics/compare',
    'Paired comparison of runs or policy versions on their common tasks',
    compareQuery,
    async (reader, query) => {
      const method = methodOf(query);
      const load = async (selection: Selection): Promise<Side> => {
        const [evaluation, settings] = await Promise.all([loadEvaluation(reader, selection, method), readSettings(reader, selection)]);
        return { evaluation, settings };
      };
      const base = await load(sideOf(query, query.base, query.baseVersion));
      const others: Side[] = [];
      for (const [run, policyVersion] of othersOf(query)) others.push(await load(sideOf(query, run, policyVersion)));
      return compareAnswer(base, others, { method, ks: query.k ?? null, limit: query.limit, context: contextOf(reader) });
    },
    compareAnswers,
  );
};

type Compare = z.infer<typeof compareQuery>;

function sideOf({ env, workType }: Compare, run: string, policyVersion: number | undefined): Selection {
  return selectionOf({ run, env, workType, policyVersion });
}

/** Runs and versions side by side: equally many of both, or one of one kind for all of the other. */
function othersOf({ base, baseVersion, other, otherVersion }: Compare): [string, number | undefined][] {
  const runs = other.length > 0 ? other : [base];
  if (other.length === 0 && otherVersion.length === 0) throw wrongUse('name what to compare with: other=<run>, or otherVersion=<version> for versions of one run');
  const count = Math.max(runs.length, otherVersion.length);
  const fits = (given: number): boolean => given === count || given <= 1;
  if (!fits(runs.length) || !fits(otherVersion.length)) throw wrongUse(`${runs.length} runs and ${otherVersion.length} versions do not go together: give as many of both, or one of one of them`);
  const pairs = Array.from({ length: count }, (_, place): [string, number | undefined] => [runs[runs.length === 1 ? 0 : place] as string, otherVersion[otherVersion.length === 1 ? 0 : place]]);
  const names = pairs.map((pair) => JSON.stringify(pair));
  if (names.includes(JSON.stringify([base, baseVersion]))) throw wrongUse('a side is compared with itself: name another run or version');
  if (new Set(names).size < names.length) throw wrongUse('a side is named twice');
  return pairs;
} // prettier-ignore

function wrongUse(message: string): TapedeckError {
  return new TapedeckError('bad_request', message);
}
