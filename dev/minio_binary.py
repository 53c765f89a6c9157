"""Where the MinIO program comes from. Nobody publishes builds of it any more: the last resort is to build it."""

from dev.go_program import GoProgram

MINIO = GoProgram(
    title="MinIO",
    command="minio",
    module="github.com/minio/minio",
    version="v0.0.0-20260212201848-7aac2a2c5b7c",
    oldest_go=(1, 24),
    variable="MINIO_BINARY",
    any_version=True,
    duration="two to four minutes",
)


def minio_binary() -> str:
    """Return the path of a MinIO program, built on the first call when the machine has none.

    ``MINIO_BINARY`` wins, then our own build, then one that the user has.

    Raises:
        ServiceError: ``MINIO_BINARY`` names no program, or the build failed.
    """
    return MINIO.path()
