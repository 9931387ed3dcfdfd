package cli

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	here := runtime.GOOS + "/" + runtime.GOARCH
	full := &debug.BuildInfo{GoVersion: "go1.99", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
		{Key: "vcs.modified", Value: "true"}}}
	clean := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"},
		{Key: "vcs.modified", Value: "false"}}}
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{full, "randfeat v1.2.3 (0123456789ab, modified) go1.99 " + here},
		{clean, "randfeat (devel) (0123456789ab) " + runtime.Version() + " " + here},
		{&debug.BuildInfo{}, "randfeat (devel) " + runtime.Version() + " " + here},
		{nil, "randfeat (devel) " + runtime.Version() + " " + here},
	} {
		if got := VersionOf(c.info).String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
