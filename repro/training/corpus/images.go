package corpus

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/internal/rng"
)

// Images makes batches of square grey images with labels.
type Images struct {
	// Augmentation of training images: each is shifted by up to Shift pixels along both axes (new pixels are black),
	// mirrored half of the time if Flip is set, and half of the time a square of Erase pixels, which may stick out,
	// is made black.
	Shift int
	Flip  bool
	Erase int

	pixels, testPixels []byte // own² bytes per image
	labels, testLabels []byte
	own, side, batch   int // own is the side of the images in the files
}

// NewImages reads a folder in the format of MNIST. Images are enlarged to side×side by repeating pixels, so that an
// image has as many patches as wanted; side must be at least that of the files. limit and test bound the numbers of
// images; 0 means all.
func NewImages(dir string, side, batch, limit, test int) (*Images, error) {
	s := &Images{side: side, batch: batch}
	for _, part := range []struct {
		name           string
		pixels, labels *[]byte
		n              int
	}{{"train", &s.pixels, &s.labels, limit}, {"t10k", &s.testPixels, &s.testLabels, test}} {
		pixels, d, err := readIDX(filepath.Join(dir, part.name+"-images-idx3-ubyte.gz"))
		if err != nil {
			return nil, err
		}
		labels, e, err := readIDX(filepath.Join(dir, part.name+"-labels-idx1-ubyte.gz"))
		if err != nil {
			return nil, err
		}
		if len(d) != 3 || len(e) != 1 || d[0] != e[0] || d[1] != d[2] {
			return nil, fmt.Errorf("%w: images %v and labels %v in %s", ErrData, d, e, dir)
		}
		s.own = d[1]
		n := d[0]
		if part.n > 0 {
			n = min(n, part.n)
		}
		*part.pixels, *part.labels = pixels[:n*d[1]*d[2]], labels[:n]
	}
	if side < s.own {
		return nil, fmt.Errorf("%w: images of %d pixels shown with %d: take as many or more", ErrData, s.own, side)
	}
	return s, nil
}

// readIDX reads a gzipped IDX array of bytes (http://yann.lecun.com/exdb/mnist).
func readIDX(file string) ([]byte, []int, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	var head [4]byte
	if _, err := io.ReadFull(z, head[:]); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	if head[0] != 0 || head[1] != 0 || head[2] != 8 || head[3] < 1 || head[3] > 3 {
		return nil, nil, fmt.Errorf("%w: %s is not an IDX file of bytes", ErrData, file)
	}
	dims := make([]int, head[3])
	size := int64(1)
	for i := range dims {
		var n [4]byte
		if _, err := io.ReadFull(z, n[:]); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		dims[i] = int(binary.BigEndian.Uint32(n[:]))
		if size *= int64(dims[i]); dims[i] < 1 || size > 1<<31 {
			return nil, nil, fmt.Errorf("%w: %s promises %v", ErrData, file, dims[:i+1])
		}
	}
	x, err := io.ReadAll(io.LimitReader(z, size))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	if int64(len(x)) != size {
		return nil, nil, fmt.Errorf("%w: %s ends after %d of %d bytes", ErrData, file, len(x), size)
	}
	return x, dims, nil
}

// Items implements train.Source.
func (s *Images) Items() int { return s.batch }

// Unit is the name of the things that Items counts.
func (s *Images) Unit() string { return "images" }

// Held implements train.Source.
func (s *Images) Held() int { return (len(s.testLabels) + s.batch - 1) / s.batch }

// Train implements train.Source.
func (s *Images) Train(seed uint64, i int) train.Batch {
	return s.rows(s.pixels, s.labels, order{len(s.labels), s.batch}.pick(seed, i), s.varied(seed, i))
}

// view says how an image is shown: shifted, mirrored, and with a black square at (top, left).
type view struct {
	down, right      int
	mirrored         bool
	top, left, erase int
}

// varied draws the views of batch i; nil means the images as they are.
func (s *Images) varied(seed uint64, i int) []view {
	if s.Shift == 0 && !s.Flip && s.Erase == 0 {
		return nil
	}
	r := rand.New(rng.Stream(seed, 'v', uint64(i)))
	all := make([]view, s.batch)
	for j := range all {
		v := view{down: r.IntN(2*s.Shift+1) - s.Shift, right: r.IntN(2*s.Shift+1) - s.Shift,
			mirrored: s.Flip && r.IntN(2) == 1}
		if s.Erase > 0 && r.IntN(2) == 1 {
			v.top, v.left, v.erase = r.IntN(s.own+s.Erase)-s.Erase, r.IntN(s.own+s.Erase)-s.Erase, s.Erase
		}
		all[j] = v
	}
	return all
}

// HeldOut implements train.Source.
func (s *Images) HeldOut(i int) train.Batch {
	return s.rows(s.testPixels, s.testLabels, order{len(s.testLabels), s.batch}.held(i, len(s.testLabels)), nil)
}

func (s *Images) rows(pixels, labels []byte, at []int, views []view) train.Batch {
	x, y := make([]float32, s.batch*s.side*s.side), make([]int32, s.batch)
	for i, a := range at {
		if a < 0 {
			y[i] = -1
			continue
		}
		y[i] = int32(labels[a])
		image := pixels[a*s.own*s.own:][:s.own*s.own]
		out := x[i*s.side*s.side:][:s.side*s.side]
		var v view
		if views != nil {
			v = views[i]
		}
		for r := range s.side {
			row := r*s.own/s.side - v.down
			if row < 0 || row >= s.own {
				continue
			}
			for c := range s.side {
				col := c*s.own/s.side - v.right
				if col < 0 || col >= s.own {
					continue
				}
				if y, x := row-v.top, col-v.left; y >= 0 && y < v.erase && x >= 0 && x < v.erase {
					continue
				}
				if v.mirrored {
					col = s.own - 1 - col
				}
				out[r*s.side+c] = float32(image[row*s.own+col]) / 255
			}
		}
	}
	return train.Batch{tensors.FromFlatDataAndDimensions(x, s.batch, s.side, s.side),
		tensors.FromFlatDataAndDimensions(y, s.batch)}
}
