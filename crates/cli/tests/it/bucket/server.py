"""An S3 server with one bucket, `box`, until standard input ends. Says its port, and with `closed` a key that may nothing."""

import sys

import boto3
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()


def client(name):
    return boto3.client(
        name,
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
    )


client("s3").create_bucket(Bucket="box")
key = {"AccessKeyId": "key", "SecretAccessKey": "secret"}
if "closed" in sys.argv:
    client("iam").create_user(UserName="nobody")
    key = client("iam").create_access_key(UserName="nobody")["AccessKey"]
print(port, key["AccessKeyId"], key["SecretAccessKey"], flush=True)
sys.stdin.read()
