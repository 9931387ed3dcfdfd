//go:build !unix

package weights

import (
	"errors"
	"os"
)

func mapFile(*os.File, int) ([]byte, func() error, error) { return nil, nil, errors.ErrUnsupported }

func release([]byte) {}
