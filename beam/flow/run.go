package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"
)

// Run runs the stages on the runner of the flag --runner; if it is empty, on prism inside this process. If a step
// fails, Run returns its error without the text that the runner wraps around it.
func Run(ctx context.Context, j Job, stages []Stage) error {
	if j.Fan < 2 {
		return fmt.Errorf("a fan-out of %d: a merge takes at least two files", j.Fan)
	}
	for _, s := range stages {
		if s.Leaves < 1 || s.Groups != nil && len(s.Groups) != s.Leaves {
			return fmt.Errorf("stage %s: %d leaves in %d groups", s.Name, s.Leaves, len(s.Groups))
		}
	}
	defer j.forget()
	clean, err := settle()
	if err != nil {
		return err
	}
	defer clean()
	p, s := beam.NewPipelineWithRoot()
	build(s, j, stages)
	err = beamx.Run(ctx, p)
	if stop := ctx.Err(); stop != nil {
		return stop
	}
	return unmarked(err)
}

// settle fills in Beam flags that follow from others, and returns a function that undoes its side effects after the
// run.
//
// Unless a worker binary is named, Beam sends the program to the runner for its workers. PROCESS workers are this
// program in place, so settle names an empty file instead. For LOOPBACK, Beam creates such a file itself in TMPDIR
// and leaves it there, so TMPDIR is a folder of ours during the run.
func settle() (clean func(), err error) {
	dir, err := os.MkdirTemp("", "rfbeam-*")
	if err != nil {
		return nil, err
	}
	old, had := os.LookupEnv("TMPDIR")
	os.Setenv("TMPDIR", dir)
	clean = func() {
		if os.Unsetenv("TMPDIR"); had {
			os.Setenv("TMPDIR", old)
		}
		os.RemoveAll(dir)
	}
	if !strings.EqualFold(*jobopts.EnvironmentType, "PROCESS") {
		return clean, nil
	}
	if *jobopts.EnvironmentConfig == "" {
		self, err := os.Executable()
		if err != nil {
			clean()
			return nil, err
		}
		config, err := json.Marshal(map[string]string{"command": self})
		if err != nil {
			clean()
			return nil, err
		}
		*jobopts.EnvironmentConfig = string(config)
		if *jobopts.WorkerBinary == "" {
			*jobopts.WorkerBinary = filepath.Join(dir, "worker")
			if err := os.WriteFile(*jobopts.WorkerBinary, nil, 0o666); err != nil {
				clean()
				return nil, err
			}
		}
	}
	return clean, nil
}

// Runners pass errors on as text, with traces before and after them. These marks enclose our part.
const (
	markBegin = "[failed: "
	markEnd   = " :failed]"
)

// marked encloses the text of an error in marks; unmarked takes it out again.
func marked(err error) error { return errors.New(markBegin + err.Error() + markEnd) }

func unmarked(err error) error {
	if err == nil {
		return nil
	}
	_, text, ok := strings.Cut(err.Error(), markBegin)
	if ok {
		text, _, ok = strings.Cut(text, markEnd)
	}
	if !ok {
		return err
	}
	return errors.New(text)
}

// Quiet silences the runner's own messages on standard error. Errors still come back from Run.
func Quiet() {
	log.SetLogger(silent{})
	slog.SetDefault(slog.New(slog.DiscardHandler))
}

type silent struct{}

func (silent) Log(context.Context, log.Severity, int, string) {}
