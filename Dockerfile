# An image with the program, the libraries and the Python package: docker build -t capstan .
# The stage develop has what scripts/build, scripts/test and scripts/lint need: .devcontainer uses it.
FROM debian:12 AS develop
COPY scripts /capstan/scripts
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates git \
    && /capstan/scripts/setup --lint

FROM debian:12 AS build
WORKDIR /capstan
COPY . .
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates \
    && scripts/setup --groups build,library,python,package && scripts/package deb

FROM debian:12-slim
RUN --mount=from=build,source=/capstan/build/packages,target=/packages \
    apt-get update && apt-get install --yes --no-install-recommends /packages/*.deb \
    && rm -rf /var/lib/apt/lists/*
ENTRYPOINT ["capstan"]
