package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
)

func TestVersionCommand(t *testing.T) {
	here := runtime.GOOS + "/" + runtime.GOARCH
	line := ok(t, "version").stdout
	if flag := ok(t, "--version").stdout; flag != line || !strings.HasPrefix(line, "randfeat ") ||
		!strings.HasSuffix(line, here+"\n") {
		t.Errorf("version %q, --version %q", line, flag)
	}
	if v := objects[cli.VersionInfo](t, ok(t, "version", "--json").stdout); len(v) != 1 || v[0].Version == "" ||
		v[0].Platform != here {
		t.Errorf("%+v", v)
	}
	fails(t, exitMisuse, "1 argument, want none", "version", "x")
}
