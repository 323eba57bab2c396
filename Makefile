# idlewatt. Every target does all of its own set-up and is quick when that is done already.
# `make demo` and `make test` work on a fresh clone: Go 1.26, a C compiler (for -race), Node.js with npm.

GOLANGCI_VERSION := v2.15.0

BIN     := bin
BINARY  := $(BIN)/idlewatt
LINTER  := $(BIN)/golangci-lint-$(GOLANGCI_VERSION)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

GO    ?= go
# What `make test` tests, and for how long at most: make test PKG=./connectors/...
PKG     ?= ./...
TIMEOUT ?= 20m

.DEFAULT_GOAL := help
.PHONY: help setup engine prometheus build dcgm demo test lint bench check clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: engine $(LINTER) ## install the ClickHouse library and the linter

engine:
	@command -v $(GO) >/dev/null || { echo 'setup: Go is missing; install Go 1.26 or newer from https://go.dev/dl' >&2; exit 1; }
	@sh deploy/local/setup.sh

# Its own build takes some minutes, once.
$(LINTER):
	@echo 'setup: building golangci-lint $(GOLANGCI_VERSION) (some minutes, once)' >&2
	@mkdir -p $(BIN)
	@GOBIN='$(CURDIR)/$(BIN)' GOFLAGS= nice -n 10 $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(BIN)/golangci-lint $@

build: ## build bin/idlewatt
	@mkdir -p $(BIN)
	@$(GO) build -buildvcs=false -ldflags '-X main.version=$(VERSION)' -o $(BINARY) ./cmd/idlewatt

# go-dcgm binds libdcgm at run time, function by function: a linker that binds all at once
# (-z now) makes a binary that dies where DCGM is missing.
dcgm: export CGO_ENABLED = 1
dcgm: ## test and build bin/idlewatt-dcgm, which asks DCGM host engines itself (needs cgo)
	@mkdir -p $(BIN)
	@$(GO) vet -tags dcgm ./connectors/dcgmhost
	@$(GO) test -tags dcgm -timeout $(TIMEOUT) ./connectors/dcgmhost
	@$(GO) build -buildvcs=false -tags dcgm -ldflags '-X main.version=$(VERSION) -extldflags "-Wl,-z,lazy"' -o $(BINARY)-dcgm ./cmd/idlewatt

demo: engine build ## the sample month: what it cost, what was idle, the alert, the web page
	@$(BINARY) demo $(ARGS)

# One test runs the distribution's Prometheus. Where it is missing and may not be installed,
# that test says so, and is a failure in continuous integration.
prometheus:
	@command -v prometheus >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus; } >/dev/null 2>&1; } || \
		echo 'test: prometheus is missing: the test against a real one is left out; apt-get install prometheus' >&2

test: engine prometheus ## every test, on real engines, with the race detector
	@$(GO) test -race -timeout $(TIMEOUT) $(PKG)

lint: $(LINTER) ## golangci-lint with the rules of .golangci.yml
	@$(LINTER) run ./...

bench: engine ## measurements, among them a 2M-row import against ClickHouse's own
	@$(GO) list -f '{{.Dir}}' ./... | while read -r dir; do \
		if grep -lq '^func Benchmark' "$$dir"/*_test.go 2>/dev/null; then \
			(cd "$$dir" && $(GO) test -run '^$$' -bench . -benchtime $${BENCHTIME:-1s} -timeout 40m .) || exit 1; \
		fi; \
	done

check: lint test ## lint and test, as continuous integration does

clean: ## remove what make built; data directories stay
	rm -rf $(BIN) deploy/local/node_modules coverage.txt
