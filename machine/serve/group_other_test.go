//go:build !unix

package serve

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

func killGroup(p *os.Process) { _ = p.Kill() }
