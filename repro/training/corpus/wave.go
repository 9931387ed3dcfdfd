package corpus

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/randfeat/randfeat/dense"
)

// readWave returns the samples of a 16-bit WAV file and their rate. Channels are averaged.
func readWave(b []byte) ([]float64, int, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrData, fmt.Sprintf(format, args...))
	}
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return nil, 0, bad("no WAV file")
	}
	rate, channels := 0, 0
	for at := 12; at+8 <= len(b); {
		name, size := string(b[at:at+4]), int64(binary.LittleEndian.Uint32(b[at+4:]))
		body := b[at+8:]
		if size > int64(len(body)) {
			return nil, 0, bad("its part %q promises %d bytes and has %d", name, size, len(body))
		}
		body = body[:size]
		switch name {
		case "fmt ":
			if len(body) < 16 {
				return nil, 0, bad("a format of %d bytes", len(body))
			}
			format, bits := binary.LittleEndian.Uint16(body), binary.LittleEndian.Uint16(body[14:])
			channels, rate = int(binary.LittleEndian.Uint16(body[2:])), int(binary.LittleEndian.Uint32(body[4:]))
			if format != 1 || bits != 16 || channels < 1 || rate < 1000 || rate > 1<<20 {
				return nil, 0, bad("format %d of %d bits, %d channels at %d Hz: take 16-bit PCM", format, bits, channels, rate)
			}
		case "data":
			if channels == 0 {
				return nil, 0, bad("samples before their format")
			}
			x := make([]float64, len(body)/2/channels)
			for i := range x {
				for c := range channels {
					v := int16(binary.LittleEndian.Uint16(body[2*(i*channels+c):]))
					x[i] += float64(v) / 32768 / float64(channels)
				}
			}
			return x, rate, nil
		}
		at += 8 + int(size+size%2)
	}
	return nil, 0, bad("a WAV file without samples")
}

// Frames: every 10 ms the log energies of a window of 25 ms in mel bands. Two neighbours are joined into one row, as
// the first layers of a Conformer do.
const (
	bands  = 32
	joined = 2
)

// spectra returns the frames of samples at a rate: rows of bands·joined numbers. Every column is normalised to mean
// 0 and variance 1 over the sound, so that voice and microphone matter less.
func spectra(x []float64, rate int) dense.Matrix[float32] {
	window, hop := rate/40, rate/100
	n := 1
	for n < window {
		n *= 2
	}
	fft := fourier.NewFFT(n)
	filters := melFilters(n, rate)
	count := 0
	if len(x) >= window {
		count = (1 + (len(x)-window)/hop) / joined * joined
	}
	out := dense.New[float32](count/joined, bands*joined)
	buffer, power := make([]float64, n), make([]float64, n/2+1)
	var spectrum []complex128
	for i := range count {
		for j, v := range x[i*hop : i*hop+window] {
			buffer[j] = v * (0.5 - 0.5*math.Cos(2*math.Pi*(float64(j)+0.5)/float64(window))) // Hann
		}
		spectrum = fft.Coefficients(spectrum, buffer)
		for k, c := range spectrum {
			a := cmplx.Abs(c)
			power[k] = a * a
		}
		row := out.Row(i / joined)[i%joined*bands:][:bands]
		for m, f := range filters {
			var sum float64
			for k, w := range f.weights {
				sum += w * power[f.from+k]
			}
			row[m] = float32(math.Log(sum + 1e-8))
		}
	}
	for c := range out.Cols {
		var mean, square float64
		for r := range out.Rows {
			mean += float64(out.At(r, c)) / float64(out.Rows)
		}
		for r := range out.Rows {
			d := float64(out.At(r, c)) - mean
			square += d * d / float64(out.Rows)
		}
		for r := range out.Rows {
			out.Set(r, c, float32((float64(out.At(r, c))-mean)/(math.Sqrt(square)+1e-3)))
		}
	}
	return out
}

type filter struct {
	from    int
	weights []float64
}

// melFilters returns triangular filters on the mel scale 1127 log(1 + f/700), from 50 Hz to half the rate.
func melFilters(n, rate int) []filter {
	mel := func(f float64) float64 { return 1127 * math.Log1p(f/700) }
	low, high := mel(50), mel(float64(rate)/2)
	step := (high - low) / (bands + 1)
	out := make([]filter, bands)
	for m := range out {
		centre := low + step*float64(m+1)
		for k := range n/2 + 1 {
			w := 1 - math.Abs(mel(float64(k)*float64(rate)/float64(n))-centre)/step
			if w <= 0 {
				continue
			}
			if out[m].weights == nil {
				out[m].from = k
			}
			out[m].weights = append(out[m].weights, w)
		}
	}
	return out
}

// waveFrames returns the frames of a WAV file.
func waveFrames(b []byte) (dense.Matrix[float32], error) {
	x, rate, err := readWave(b)
	if err != nil {
		return dense.Matrix[float32]{}, err
	}
	return spectra(x, rate), nil
}
