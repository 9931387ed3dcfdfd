# Everything else is plain go; see README.md and .ci/run.
PYTHON ?= python3

.PHONY: test bench generate

test:
	go test ./...

# Ours and the peers, one thread and two, into bench/RESULTS.md. Install the peers first:
#   pip install -r bench/peers/requirements.txt
bench:
	cd bench && go run . -python $(PYTHON) -threads 1 -o one.md && go run . -python $(PYTHON) -threads 2 -o two.md
	cd bench && cat HEAD.md one.md two.md > RESULTS.md && rm one.md two.md
