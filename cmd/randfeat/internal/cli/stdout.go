package cli

import (
	"io"
	"os"
)

// ProcessEnv is the environment of the process.
//
// A process that starts with a closed stdout (>&-) never learns of it: the Go runtime opens /dev/null in its place, for
// reading and writing, before any code of the program runs. Some callers pass a stdout just like that on purpose
// (subprocess.DEVNULL of Python, stdio "ignore" of Node), so it is a warning, not an error.
func ProcessEnv() *Env {
	env := NewEnv(os.Stdin, os.Stdout, os.Stderr)
	if leadsNowhere(os.Stdout) {
		env.Stdout.Reset(&discarded{env: env, w: os.Stdout})
	}
	return env
}

// discarded says at the first write that nobody will see it.
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
