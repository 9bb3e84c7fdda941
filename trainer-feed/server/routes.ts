/** All routes of the trainer feed, as one Fastify plugin. */
import type { FastifyPluginAsync } from 'fastify';
import { batchRoutes } from './batch-routes.ts';
import type { FeedService } from './feed-service.ts';
import { feedsRoutes } from './feeds-routes.ts';
import { statusRoutes } from './status-routes.ts';
import { trainerRoutes } from './trainer-routes.ts';

/** Requests are small; batches are answers. */
const MAX_BODY_BYTES = 4 * 1024 * 1024;

export const feedRoutes: FastifyPluginAsync<{ readonly service: FeedService }> = async (app, { service }) => {
  app.addHook('onRoute', (route) => {
    route.bodyLimit ??= MAX_BODY_BYTES;
  });
  app.addHook('preClose', async () => service.stopWaiting());
  for (const routes of [feedsRoutes, batchRoutes, trainerRoutes, statusRoutes]) routes(app, service);
};
