/** All views of a project database: the SQL names people see. */
import { errors, metrics, metricsHistory, notes, rewards, rewardsHistory } from './judgement-views.ts';
import { events } from './log-views.ts';
import { groups, ids, rolloutBodies, rollouts, runs, traceBodies, traces } from './run-views.ts';
import { callBodies, calls, links, nodes, search, tools } from './trace-views.ts';
import {
  batches, batchRows, droppedSamples, feedDecisions, policies, referenceScores, trainerAnnotations, trainerSteps,
} from './trainer-views.ts'; // prettier-ignore
import type { View } from './view.ts';

export const CATALOGUE: readonly View[] = [
  runs, groups, rollouts, rolloutBodies, traces, traceBodies, nodes, calls, callBodies, tools, links, rewards, rewardsHistory, metrics, metricsHistory, errors, notes,
  policies, trainerSteps, referenceScores, trainerAnnotations, batches, batchRows, droppedSamples, feedDecisions, events, search, ids,
]; // prettier-ignore
