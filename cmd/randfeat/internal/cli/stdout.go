package cli

import (
	"io"
	"os"
)

// ProcessEnv returns the environment of the process.
//
// A process that starts with a closed stdout (>&-) never learns of it: the Go runtime opens /dev/null in its
// place, for reading and writing, before any code of the program runs. Some callers pass such a stdout on
// purpose (subprocess.DEVNULL in Python, stdio "ignore" in Node), so it is a warning, not an error.
func ProcessEnv() *Env {
	env := NewEnv(os.Stdin, os.Stdout, os.Stderr)
	if leadsNowhere(os.Stdout) {
		env.Stdout.Reset(&discarded{env: env, w: os.Stdout})
	}
	return env
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
