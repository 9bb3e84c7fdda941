# One image for every role. The TypeScript sources run as they are: nothing is built but the installed packages.
# The Node version is the one that package.json pins for development.
FROM node:24.21.0-bookworm-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev

FROM node:24.21.0-bookworm-slim
ENV NODE_ENV=production \
    NODE_OPTIONS=--disable-warning=ExperimentalWarning \
    TAPEDECK_DATA=/data
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY . .
# A named volume mounted here takes over this owner.
RUN mkdir /data && chown node:node /data
USER node
VOLUME ["/data"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.TAPEDECK_PORT ?? 7070}/healthz`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "cli/main.ts"]
CMD ["serve"]
