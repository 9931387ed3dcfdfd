# Everything else is plain go; see README.md and .ci/run.
PYTHON ?= python3

.PHONY: test check bench site generate release dist tag wheels

test:
	go test ./...

# Format, vet and the short tests of the packages that differ from main, in under a minute.
check:
	.ci/check

# The program as it is released, for this machine or for GOOS and GOARCH: no paths of the builder, no symbols, no C. Two
# builds of the same revision by the same Go have the same bytes. The explorer's page goes beside it.
release:
	GOOS= GOARCH= go run ./web/explorer/build -o explorer.html
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o randfeat$$(go env GOEXE) ./cmd/randfeat

# Archives for all platforms, list of components and checksums, in dist/.
dist:
	.ci/dist dist

# make tag VERSION=v0.1.0 checks that all modules name this version and tags them. Push with: git push --tags
tag:
	.ci/tag $(VERSION)

# Ours and the peers, on one thread and on two, and the accuracy of models, into bench/latest.md; bench/RESULTS.md keeps the
# numbers that we publish. Install the peers first:
#   pip install -r bench/peers/requirements.txt
# RANDFEAT_DATA names the folder of data sets.
bench:
	cd bench && go run . -python $(PYTHON) -threads 1 -compile -o one.md
	cd bench && go run . -python $(PYTHON) -threads 2 -o two.md
	cd bench && { printf '## Serving\n\n```\n' && go run ./serve -seconds 60 -reload 1s && printf '```\n\n'; } > serve.md
	cd bench && go run ./accuracy -python $(PYTHON) -o accuracy.md
	cd bench && cat one.md two.md serve.md accuracy.md > latest.md && rm one.md two.md serve.md accuracy.md

# The documentation as a static site, in public/.
site:
	go -C site run . -o ../public

# The wheels of the Python package for Linux, macOS and Windows, into python/dist; WHEELS names some of them. They need
#   pip install --require-hashes -r python/build.txt
wheels:
	$(PYTHON) python/wheels.py $(WHEELS)

# The assembly of internal/kern from its generators.
generate:
	cd internal/kern/_gen && for g in */main.go; do go run ./$$(dirname $$g); done
