package models_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/randfeat/randfeat/models"
	"github.com/randfeat/randfeat/models/internal/tiny"
	"github.com/randfeat/randfeat/models/weights"
)

var faults = flag.Int("faults", 3, "how often TestKilledWhileSaving kills a process")

// Weights that end early are refused with an error that names the file, wherever they end.
func TestTruncatedWeights(t *testing.T) {
	folder := tiny.Folder(t, "bert")
	path := filepath.Join(folder, "model.safetensors")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lengths := []int{0, 1, 7, 8, 9, 100, len(whole) - 4, len(whole) - 1}
	for i := range 24 {
		lengths = append(lengths, len(whole)*i/24)
	}
	for _, n := range lengths {
		if err := os.Remove(path); err != nil { // never write into a file that may be mapped
			t.Fatal(err)
		}
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := models.Open(folder, models.Options{})
		if err == nil {
			m.Close()
		}
		if !errors.Is(err, weights.ErrFormat) || !strings.Contains(err.Error(), "model.safetensors") {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

// A process that is killed while it writes a session leaves the session before it, or the new one, whole.
func TestKilledWhileSaving(t *testing.T) {
	if os.Getenv("RFM_SAVE") != "" {
		saveForever(t)
	}
	folder, dir := tiny.Long(t), t.TempDir()
	path := filepath.Join(dir, "s.rfs")
	m, err := models.Open(folder, models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := rand.New(rand.NewPCG(5, 6))
	for range *faults {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileSaving$")
		cmd.Env = append(os.Environ(), "RFM_SAVE="+path, "RFM_MODEL="+folder)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines, acknowledged := bufio.NewScanner(out), -1
		for acknowledged < 2 && lines.Scan() {
			if acknowledged, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatalf("the child says %q", lines.Text())
			}
		}
		time.Sleep(time.Duration(r.IntN(10_000)) * time.Microsecond)
		cmd.Process.Kill()
		for lines.Scan() {
			if n, err := strconv.Atoi(lines.Text()); err == nil {
				acknowledged = n
			}
		}
		cmd.Wait()
		s, err := m.Decoder.Resume(path)
		if err != nil {
			t.Fatalf("after %d saves: %v", acknowledged, err)
		}
		if note, err := models.SessionNote(path); err != nil || note != strconv.Itoa(acknowledged) &&
			note != strconv.Itoa(acknowledged+1) {
			t.Errorf("the session has the note %q (%v), %d was saved last", note, err, acknowledged)
		}
		if s.Len() == 0 {
			t.Error("the session is empty")
		}
	}
}

// saveForever saves sessions until the process is killed, and prints the number of each after it was written.
func saveForever(t *testing.T) {
	m, err := models.Open(os.Getenv("RFM_MODEL"), models.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := read(t, m, tiny.Text(1500))
	for i := 0; ; i++ {
		if err := s.Save(os.Getenv("RFM_SAVE"), strconv.Itoa(i)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(i)
	}
}
