package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/randfeat/randfeat/internal/rng"
)

// The demo table: noise measured by sensors at places and hours, in several files.
const (
	demoTarget = "noise"
	demoID     = "sensor"
	demoFiles  = 4
	demoRows   = 500 // per file
)

// writeDemo writes the files of the table into a new folder. The seed is fixed, so every run sees the same rows.
func writeDemo() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "rfbeam-demo-*"); err != nil {
		return "", err
	}
	uniform, gauss, normal := rng.Stream(15, 1), rng.Stream(15, 2), make([]float64, 2)
	share := func() float64 { return float64(uniform.Uint64()>>11) / (1 << 53) }
	for i := range demoFiles {
		var b bytes.Buffer
		fmt.Fprintf(&b, "%s,east,north,hour,%s\n", demoID, demoTarget)
		for range demoRows {
			east, north, hour := 4*share(), 4*share(), 24*share()
			rng.Normals(normal, gauss)
			road := math.Exp(-math.Pow(east-2-math.Sin(north), 2) * 4)
			level := 40 + 25*road*(1+0.5*math.Sin((hour-8)*math.Pi/12)) + 2*normal[0]
			fmt.Fprintf(&b, "s%d,%.3f,%.3f,%.2f,%.1f\n", int(100*share()), east, north, hour, level)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("part-%d.csv", i)), b.Bytes(), 0o666); err != nil {
			os.RemoveAll(dir)
			return "", err
		}
	}
	return dir, nil
}
