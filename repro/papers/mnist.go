package papers

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/repro/lab"
)

const mnistFile = "mnist/train-images-idx3-ubyte.gz"

// readMNIST reads the first n images, reduced to 8×8 by means over equal areas, with values from 0 to 1.
func readMNIST(l *lab.Lab, n int) (x dense.Matrix[float64], err error) {
	f, err := os.Open(l.Path(mnistFile))
	if err != nil {
		return x, err
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return x, fmt.Errorf("%s: %w", mnistFile, err)
	}
	var head [4]uint32
	if err := binary.Read(z, binary.BigEndian, &head); err != nil || head[0] != 2051 || head[2] != 28 ||
		head[3] != 28 ||
		n > int(head[1]) {
		return x, fmt.Errorf("%s: not %d images of 28×28 (%v)", mnistFile, n, err)
	}
	x = dense.New[float64](n, 64)
	image := make([]byte, 28*28)
	for i := range n {
		if _, err := io.ReadFull(z, image); err != nil {
			return x, fmt.Errorf("%s: image %d: %w", mnistFile, i, err)
		}
		shrink(x.Row(i), image)
	}
	return x, nil
}

// shrink averages boxes of 3.5×3.5 pixels, that is 7×7 half pixels.
func shrink(dst []float64, image []byte) {
	for r := range 8 {
		for c := range 8 {
			sum := 0
			for a := 7 * r; a < 7*r+7; a++ {
				for b := 7 * c; b < 7*c+7; b++ {
					sum += int(image[a/2*28+b/2])
				}
			}
			dst[8*r+c] = float64(sum) / (49 * 255)
		}
	}
}
