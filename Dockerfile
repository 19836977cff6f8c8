# One image.  Migrate, web server and worker are three commands of it; see
# docker-compose.yml, which runs them beside PostgreSQL.
FROM python:3.13.15-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b AS base

FROM base AS build
WORKDIR /source
RUN python -m venv /opt/tracker && python -m venv /opt/build
COPY requirements.txt requirements-dev.txt ./
RUN /opt/tracker/bin/pip install --no-cache-dir --require-hashes -r requirements.txt
# Of the development lock only what builds the wheel; a package that is missing
# here fails the build, because every hash is required.
RUN awk '/^[a-z]/ {keep = /^(hatchling|packaging|pathspec|pluggy|tomlkit|trove-classifiers)==/} keep' \
        requirements-dev.txt > requirements-build.txt \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements-build.txt
COPY LICENSE NOTICE README.md pyproject.toml ./
COPY migrations migrations
COPY static static
COPY templates templates
COPY tracker tracker
RUN /opt/build/bin/pip wheel --no-deps --no-index --no-build-isolation --wheel-dir /wheels . \
    && /opt/tracker/bin/pip install --no-deps --no-index /wheels/tracker_server-*.whl

FROM base
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin tracker \
    && install --directory --owner tracker --group tracker /data
COPY --from=build /opt/tracker /opt/tracker
ENV PATH=/opt/tracker/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    TRACKER_DATA_DIR=/data
USER 10001
EXPOSE 8000
ENTRYPOINT ["tracker"]
CMD ["--help"]
