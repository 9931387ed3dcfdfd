package cli

import (
	"errors"
	"io"
	"os"

	"github.com/randfeat/randfeat/internal/localfile"
)

// ProcessEnv returns the environment of the process.
//
// A process that starts with a closed stdout (>&-) never learns of it: the Go runtime opens /dev/null in its
// place, for reading and writing, before any code of the program runs. Some callers pass such a stdout on
// purpose (subprocess.DEVNULL in Python, stdio "ignore" in Node), so for reports it is a warning. For results that
// are written nowhere else it is an error: see [Env.Results].
func ProcessEnv() *Env {
	env := NewEnv(os.Stdin, os.Stdout, os.Stderr)
	if localfile.LeadsNowhere(os.Stdout) {
		env.lost = true
		env.Stdout.Reset(&discarded{env: env, w: os.Stdout})
	}
	return env
}

// Results returns stdout for results that are written nowhere else, such as predictions. It fails if nobody would see
// them.
func (env *Env) Results() (io.Writer, error) {
	if env.lost {
		return nil, errors.New("stdout is closed, or is /dev/null opened for reading and writing: the results would be lost; " +
			"name a file with -o")
	}
	return env.Stdout, nil
}

// discarded warns at the first write that nobody will see the output.
type discarded struct {
	env  *Env
	w    io.Writer
	said bool
}

func (d *discarded) Write(b []byte) (int, error) {
	if !d.said {
		d.said = true
		d.env.Warn("stdout is closed, or is /dev/null opened for reading and writing: the output is discarded")
	}
	return d.w.Write(b)
}
