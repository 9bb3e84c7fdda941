/** Feeds themselves: create, list, read, delete. */
import { z } from 'zod';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import { lastCut } from '../feed/decision-state.ts';
import type { KnownFeed } from '../feed/feed-directory.ts';
import { feedSpec } from '../feed/spec.ts';
import { deletedAnswer, feedAnswer, feedsAnswer } from './answers.ts';
import { described, feedOf, feedParams, parsed, projectQuery, type FeedRoutes } from './route-parts.ts';

const createBody = z.strictObject({
  feed: entityId.meta({ description: 'name of the feed, never given away again' }),
  project: entityId.default(DEFAULT_PROJECT),
  spec: feedSpec.meta({ description: 'what it trains on; docs/feed.md' }),
});
const listQuery = z.strictObject(projectQuery);
const deleteQuery = z.strictObject({ ...projectQuery, reason: z.string().max(1024).optional() });

export const feedsRoutes: FeedRoutes = (app, service) => {
  app.post(
    '/v1/feeds',
    described({
      summary: 'Create a feed',
      body: createBody,
      answers: { 201: { says: 'The feed', schema: feedAnswer }, 200: { says: 'It was there, with the same spec', schema: feedAnswer } },
    }),
    async (request, reply) => {
      const body = parsed(createBody.extend({ spec: z.unknown() }), request.body);
      const feed = await service.directory.create({ project: body.project, feed: body.feed }, body.spec ?? {});
      return reply.code(feed.made ? 201 : 200).send(summaryOf(feed));
    },
  );

  app.get(
    '/v1/feeds',
    described({
      summary: 'List the feeds of a project',
      querystring: listQuery,
      answers: { 200: { says: 'The feeds, without their specs', schema: feedsAnswer } },
    }),
    async (request) => {
      const { project } = parsed(listQuery, request.query);
      return { feeds: service.directory.list(project).map((feed) => withoutSpec(summaryOf(feed))) };
    },
  );

  app.get(
    '/v1/feeds/:feed',
    described({
      summary: 'Read a feed and its spec',
      params: feedParams,
      querystring: listQuery,
      answers: { 200: { says: 'The feed', schema: feedAnswer } },
    }),
    async (request) => {
      const { feed } = parsed(feedParams, request.params);
      const { project } = parsed(listQuery, request.query);
      const engine = service.engine({ project, feed });
      return summaryOf(service.directory.list(project).find((each) => each.engine === engine) as KnownFeed);
    },
  );

  app.delete(
    '/v1/feeds/:feed',
    described({
      summary: 'End a feed for good',
      params: feedParams,
      querystring: deleteQuery,
      answers: { 200: { says: 'It is ended', schema: deletedAnswer } },
    }),
    async (request, reply) => {
      const { feed } = parsed(feedParams, request.params);
      const { project, reason } = parsed(deleteQuery, request.query);
      const { fold } = service.engine({ project, feed });
      if (fold?.decisions.deleted !== true) {
        const { signal } = await feedOf(service, request, reply);
        await service.directory.remove({ project, feed }, reason ?? null, signal);
      }
      return { feed, deleted: true };
    },
  );
};

function summaryOf({ feed, project, spec, specHash, created, engine, problem }: KnownFeed) {
  const decisions = engine?.fold?.decisions;
  return {
    feed,
    project,
    specHash,
    created,
    timeline: decisions?.timeline ?? null,
    committed: decisions?.committed ?? null,
    cut: decisions === undefined ? null : lastCut(decisions),
    deleted: decisions?.deleted ?? false,
    problem: problem ?? engine?.trouble ?? null,
    spec,
  };
}

function withoutSpec({ spec: _spec, ...rest }: ReturnType<typeof summaryOf>) {
  return rest;
}
