package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"
)

// VersionInfo is the object of version --json. Fields that a build does not know are empty.
type VersionInfo struct {
	Version  string `json:"version"`            // version of the module; (devel) if built from a checkout without one
	Revision string `json:"revision,omitempty"` // revision of the checkout that it was built from
	Time     string `json:"time,omitempty"`     // time of that revision
	Modified bool   `json:"modified,omitempty"` // the checkout had changes that are not in the revision
	Go       string `json:"go"`                 // version of Go that built it
	Platform string `json:"platform"`           // operating system and processor
}

// VersionOf reads the build information that the linker recorded. It contains nothing that differs between two
// builds of the same source.
func VersionOf(info *debug.BuildInfo) VersionInfo {
	v := VersionInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	if info.GoVersion != "" {
		v.Go = info.GoVersion
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// String is one line for people.
func (v VersionInfo) String() string {
	s := "randfeat " + v.Version
	if v.Revision != "" {
		s += fmt.Sprintf(" (%.12s", v.Revision)
		if v.Modified {
			s += ", modified"
		}
		s += ")"
	}
	return s + " " + v.Go + " " + v.Platform
}

// ProgramVersion is the text that model files keep. It does not differ between two builds of the same source.
func ProgramVersion() string {
	info, _ := debug.ReadBuildInfo()
	v := VersionOf(info)
	if v.Revision == "" {
		return "randfeat " + v.Version
	}
	return fmt.Sprintf("randfeat %s %.12s", v.Version, v.Revision)
}

// Creation returns the creation time to write into a model file: now, or SOURCE_DATE_EPOCH, with which the same
// command writes the same bytes again (https://reproducible-builds.org/specs/source-date-epoch/). If
// SOURCE_DATE_EPOCH is 0 it returns "": neither date nor program are recorded.
func Creation(env func(string) string) (string, error) {
	at := time.Now()
	if text := env("SOURCE_DATE_EPOCH"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds < 0 || seconds >= 253402300800 { // year 10000
			return "", fmt.Errorf("SOURCE_DATE_EPOCH is %.40q, want the seconds since 1970 as a number", text)
		}
		if seconds == 0 {
			return "", nil
		}
		at = time.Unix(seconds, 0)
	}
	return at.UTC().Format(time.RFC3339), nil
}
