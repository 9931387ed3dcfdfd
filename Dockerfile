# randfeat in an image of its own, without a system around it:
#
#   docker build -t randfeat .
#   docker run --rm -p 8080:8080 -e RANDFEAT_TOKEN=secret -v "$PWD/model.rf:/model.rf:ro" \
#     randfeat serve /model.rf --addr :8080
FROM golang:1.26 AS build
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
