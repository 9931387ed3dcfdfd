// Command figures draws the figures of the README and of the documentation into docs/img. The library computes every
// point, from fixed seeds:
//
//	go -C site run ./figures
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/randfeat/randfeat/internal/figure"
)

func main() {
	out := flag.String("o", "../docs/img", "`folder` of the figures")
	program := flag.String("randfeat", "", "randfeat `program`; empty: go run ../cmd/randfeat")
	flag.Parse()
	if err := run(*out, *program); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(out, program string) error {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	randfeat := func(args ...string) ([]byte, error) {
		cmd := exec.Command("go", append([]string{"-C", "..", "run", "./cmd/randfeat"}, args...)...)
		if program != "" {
			cmd = exec.Command(program, args...)
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		b, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("randfeat %v: %w\n%s", args, err, stderr.Bytes())
		}
		return b, nil
	}
	hero, err := estimates()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "estimates.svg"), hero, 0o666); err != nil {
		return err
	}

	report, err := randfeat("advise", "--demo", "--json")
	if err != nil {
		return err
	}
	advice, err := curves(report)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "advise.svg"), advice, 0o666)
}

// curves draws the error of the best coupling of each family by the number of features, from a report of advise.
func curves(report []byte) ([]byte, error) {
	var r struct {
		Curves []struct {
			Name   string
			Points []struct{ X, Error, Low, High float64 }
		}
	}
	if err := json.NewDecoder(bytes.NewReader(report)).Decode(&r); err != nil {
		return nil, err
	}
	if len(r.Curves) == 0 {
		return nil, errors.New("the report of advise has no curves")
	}
	f := figure.Figure{
		Title:    "Error of exp(q·k) by features",
		Subtitle: "1000 anisotropic queries and keys, d = 16, rows held out of the fits",
		X:        figure.Axis{Label: "features", Log: true, Ticks: []float64{8, 16, 32, 64, 128}},
		Y:        figure.Axis{Label: "relative error (rms)", Log: true},
		Width:    440, Height: 440, // legible on a phone
	}
	for _, c := range r.Curves[:min(len(r.Curves), figure.MaxSeries)] {
		s := figure.Series{Name: c.Name}
		for _, p := range c.Points {
			if p.High == 0 { // the tail allows no interval
				p.Low, p.High = p.Error, p.Error
			}
			s.X, s.Y = append(s.X, p.X), append(s.Y, p.Error)
			s.Low, s.High = append(s.Low, p.Low), append(s.High, p.High)
		}
		f.Series = append(f.Series, s)
	}
	var b bytes.Buffer
	err := f.WriteSVG(&b)
	return b.Bytes(), err
}
