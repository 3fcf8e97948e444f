// An S3-speaking server for tests: versitygw's own, over a folder, without what else that program links (it halves the
// time to build). Arguments: address, folder of the buckets, folder for their attributes. The one account that may do
// anything is in ROOT_ACCESS_KEY_ID and ROOT_SECRET_ACCESS_KEY.
package main

import (
	"log"
	"os"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: s3-server ADDRESS FOLDER ATTRIBUTES")
	}
	sidecar, err := meta.NewSideCar(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	files, err := posix.New(os.Args[2], sidecar, posix.PosixOpts{SideCarDir: os.Args[3]})
	if err != nil {
		log.Fatal(err)
	}
	root := middlewares.RootUserConfig{
		Access: os.Getenv("ROOT_ACCESS_KEY_ID"), Secret: os.Getenv("ROOT_SECRET_ACCESS_KEY"),
	}
	accounts := auth.NewIAMServiceSingle(auth.Account{Access: root.Access, Secret: root.Secret, Role: auth.RoleAdmin})
	server, err := s3api.New(files, root, "us-east-1", accounts, nil, nil, nil, nil,
		s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithConcurrencyLimiter(1000, 1000))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.ServeMultiPort([]string{os.Args[1]}))
}
