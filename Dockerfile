# randfeat in an image of its own, without a system around it:
#
#   docker build -t randfeat .
#   docker run --rm -p 8080:8080 -e RANDFEAT_TOKEN=secret -v "$PWD/model.rf:/model.rf:ro" \
#     randfeat serve /model.rf --addr :8080
#
# The image that builds is named by its digest (docker buildx imagetools inspect golang:1.26.8 shows that of a tag). It
# builds for other processors without emulating them.
FROM --platform=$BUILDPLATFORM golang:1.26.8@sha256:6c2a5538f964f1c82f97ad14988bf05de100d922d159d0e398b54c7b0ca0c6c9 \
    AS build
ARG TARGETOS
ARG TARGETARCH
ENV GOOS=$TARGETOS GOARCH=$TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o /randfeat ./cmd/randfeat && .ci/licences >/THIRD_PARTY_LICENSES

FROM scratch
COPY --from=build /randfeat /THIRD_PARTY_LICENSES /
COPY LICENSE NOTICE /
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/randfeat"]
CMD ["--help"]
