//go:build unix

package serve

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup puts a command and what it starts into a group of processes of their own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
