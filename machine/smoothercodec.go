package machine

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/dense"
)

// A saved Smoother or Density is, all numbers little endian:
//
//	magic "randfeat sums\n\x00\x00", version u16, 0 u16, fingerprint [32]byte
//	task u64 (0 regression, 1 classification, 2 density), features F u64, outputs K u64, rows u64
//	t, F f64 (−Inf: no key yet); Σ φ2 y e^{−t} and Σ φ2 e^{−t}, F×(K+1) f64; Σy f64
//	SHA-256 of everything before
const (
	sumsMagic   = "randfeat sums\n\x00\x00"
	sumsVersion = 1
	sumsHeader  = len(sumsMagic) + 2 + 2 + 32 + 4*8
)

var sumsTasks = []Task{Regression, Classification, Unsupervised}

// MarshalBinary is AppendBinary to no bytes.
func (a *Smoother) MarshalBinary() ([]byte, error) { return a.AppendBinary(nil) }

// AppendBinary appends the sums to b. A fit that goes on from them has the bits of one that was never interrupted.
func (a *Smoother) AppendBinary(b []byte) ([]byte, error) {
	start := len(b)
	le := binary.LittleEndian
	b = slices.Grow(b, sumsHeader+a.sumsSize()+sha256.Size)
	b = append(b, sumsMagic...)
	b = le.AppendUint16(b, sumsVersion)
	b = le.AppendUint16(b, 0)
	fingerprint := a.keys.m.Fingerprint()
	b = append(b, fingerprint[:]...)
	for _, v := range []int64{int64(slices.Index(sumsTasks, a.setup.Task)), int64(len(a.t)), int64(a.setup.Outputs), a.n} {
		b = le.AppendUint64(b, uint64(v))
	}
	b = appendFloats(b, a.t)
	b = appendFloats(b, a.sums.Data)
	b = appendFloats(b, a.ySum)
	return seal(b, start), nil
}

// UnmarshalSmoother reads what AppendBinary wrote, for the same setup. Sums of another map, task or shape are
// ErrMismatch, anything else that does not fit ErrCorrupt. No more memory is used than the setup justifies.
func UnmarshalSmoother(s Setup, b []byte) (*Smoother, error) {
	a, err := NewSmoother(s)
	if err != nil {
		return nil, err
	}
	if err := a.unmarshal(b); err != nil {
		return nil, fmt.Errorf("saved smoother: %w", err)
	}
	return a, nil
}

// MarshalBinary is AppendBinary to no bytes.
func (d *Density) MarshalBinary() ([]byte, error) { return d.sums.AppendBinary(nil) }

// AppendBinary appends the sums to b, as that of Smoother does.
func (d *Density) AppendBinary(b []byte) ([]byte, error) { return d.sums.AppendBinary(b) }

// UnmarshalDensity reads what AppendBinary wrote, for the same setup, as UnmarshalSmoother does.
func UnmarshalDensity(s Setup, b []byte) (*Density, error) {
	d, err := NewDensity(s)
	if err != nil {
		return nil, err
	}
	if err := d.sums.unmarshal(b); err != nil {
		return nil, fmt.Errorf("saved density: %w", err)
	}
	return d, nil
}

// sumsSize is the number of bytes of the sums.
func (a *Smoother) sumsSize() int { return 8 * (len(a.t) + len(a.sums.Data) + len(a.ySum)) }

// unmarshal fills a, which has no rows.
func (a *Smoother) unmarshal(b []byte) error {
	body, err := unseal(b, sumsMagic, sumsHeader)
	if err != nil {
		return err
	}
	head := body[len(sumsMagic):sumsHeader]
	body = body[sumsHeader:]
	if v := binary.LittleEndian.Uint32(head); v != sumsVersion {
		return fmt.Errorf("version %d, this program reads %d: %w", v, sumsVersion, ErrCorrupt)
	}
	var count [4]uint64
	if err := readCounts(head[36:], count[:]); err != nil {
		return err
	}
	if count[0] >= uint64(len(sumsTasks)) {
		return fmt.Errorf("task number %d: %w", count[0], ErrCorrupt)
	}
	if f, g := a.keys.m.Fingerprint(), [32]byte(head[4:36]); f != g {
		return fmt.Errorf("fingerprint %x…, this map has %x…: %w", g[:4], f[:4], ErrMismatch)
	}
	if task, k := sumsTasks[count[0]], count[2]; task != a.setup.Task || k != uint64(a.setup.Outputs) {
		return fmt.Errorf("%s with %d outputs, want %s with %d: %w", task, k, a.setup.Task, a.setup.Outputs, ErrMismatch)
	}
	if count[1] != uint64(len(a.t)) {
		return fmt.Errorf("%d features, the map has %d: %w", count[1], len(a.t), ErrMismatch)
	}
	if want := a.sumsSize(); len(body) != want {
		return fmt.Errorf("%d bytes of sums, want %d: %w", len(body), want, ErrCorrupt)
	}
	ok, ignored := true, true // t is checked below
	body = readFloats(body, a.t, &ignored)
	body = readFloats(body, a.sums.Data, &ok)
	readFloats(body, a.ySum, &ok)
	for f, t := range a.t {
		switch {
		case math.IsInf(t, -1): // no key has this feature
			for _, v := range a.sums.Row(f) {
				ok = ok && v == 0
			}
		default:
			ok = ok && dense.IsFinite(t)
		}
	}
	if !ok {
		return fmt.Errorf("sums that are not finite, or of a feature that no row has: %w", ErrCorrupt)
	}
	a.n = int64(count[3])
	return nil
}
