package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// peerProcess is a Python process that runs the peers on command. It is idle between commands, so ours and theirs
// never run at the same time.
type peerProcess struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	About about
}

// about describes the versions in the process.
type about struct {
	Python, Numpy, Sklearn string
	Torch, Performer       *string
	Blas                   []struct {
		API          string `json:"internal_api"`
		Version      *string
		Architecture *string
		NumThreads   int `json:"num_threads"`
	}
}

// startPeers starts python with the given number of threads for every library it loads.
func startPeers(python, script string, threads int) (*peerProcess, error) {
	p := &peerProcess{cmd: exec.Command(python, script)}
	n := fmt.Sprint(threads)
	p.cmd.Env = append(os.Environ(), "OMP_NUM_THREADS="+n, "OPENBLAS_NUM_THREADS="+n, "MKL_NUM_THREADS="+n,
		// Old versions of OpenBLAS do not know new CPUs and fall back to a slow kernel. Elsewhere this is harmless.
		"OPENBLAS_CORETYPE="+coreType(), "OMP_WAIT_POLICY=PASSIVE")
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("peers: %w (install them with: pip install -r bench/peers/requirements.txt)", err)
	}
	return p, p.call(map[string]any{"op": "about"}, &p.About)
}

// call sends a request and decodes the answer.
func (p *peerProcess) call(request map[string]any, answer any) error {
	b, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("peers ended: %w", err)
	}
	var failed struct{ Error string }
	if err := json.Unmarshal(line, &failed); err == nil && failed.Error != "" {
		return errors.New(failed.Error)
	}
	return json.Unmarshal(line, answer)
}

// setup prepares a case and returns the names of its peers.
func (p *peerProcess) setup(name string, files map[string]string, compile bool) ([]string, error) {
	var a struct{ Peers []string }
	err := p.call(map[string]any{"op": "setup", "case": name, "files": files, "compile": compile}, &a)
	return a.Peers, err
}

// run runs one peer once.
func (p *peerProcess) run(peer string) (seconds float64, sample []float64, err error) {
	var a struct {
		Seconds float64
		Sample  []float64
	}
	err = p.call(map[string]any{"op": "run", "peer": peer}, &a)
	return a.Seconds, a.Sample, err
}

func (p *peerProcess) close() {
	p.in.Close()
	_ = p.cmd.Wait()
}

func (a about) String() string {
	var parts []string
	torch := "none"
	if a.Torch != nil {
		torch = *a.Torch
	}
	parts = append(parts, "Python "+a.Python, "NumPy "+a.Numpy, "scikit-learn "+a.Sklearn, "PyTorch "+torch)
	if a.Performer != nil {
		parts = append(parts, "performer-pytorch "+*a.Performer)
	}
	for _, b := range a.Blas {
		s := b.API
		if b.Version != nil {
			s += " " + *b.Version
		}
		if b.Architecture != nil {
			s += " (" + *b.Architecture + ")"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}
