import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * Hadoop's local file system, which sets permissions by itself: without its native library Hadoop starts a process,
 * `chmod`, for each file that it creates. It writes no file of checksums beside each file, as no other writer of tables
 * does; where there is one, it is read.
 */
public class LocalFiles extends LocalFileSystem {
  private boolean writesChecksums;

  public LocalFiles() {
    super(new Raw());
    setWriteChecksum(false);
  }

  public void setWriteChecksum(boolean value) {
    super.setWriteChecksum(value);
    writesChecksums = value;
  }

  /** The buffer is not larger than the file: Spark's 64 KiB, filled with zeros, cost more than a manifest of 7 KiB. */
  public FSDataInputStream open(Path path, int bufferBytes) throws IOException {
    if (checksums(path).exists()) {
      return super.open(path, bufferBytes);
    }
    long size = Math.max(1, pathToFile(path).length());
    return getRawFileSystem().open(path, (int) Math.min(bufferBytes, size));
  }

  /** Hadoop's own makes the folder twice, and makes paths and looks at statuses to learn that there are no checksums. */
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferBytes,
      short replication,
      long blockBytes,
      Progressable progress)
      throws IOException {
    if (writesChecksums) {
      return super.create(path, permission, overwrite, bufferBytes, replication, blockBytes, progress);
    }
    FSDataOutputStream out =
        getRawFileSystem().create(path, permission, overwrite, bufferBytes, replication, blockBytes, progress);
    checksums(path).delete();
    return out;
  }

  private File checksums(Path path) {
    File file = pathToFile(path);
    return new File(file.getParentFile(), "." + file.getName() + ".crc");
  }

  /** Let this be the file system of `file:` in this JVM from now on. A Hadoop that does not allow it keeps its own. */
  public void install(Configuration conf) throws IOException {
    URI root = URI.create("file:///");
    initialize(root, conf);
    try {
      Method remember = FileSystem.class.getDeclaredMethod(
          "addFileSystemForTesting", new Class[] {URI.class, Configuration.class, FileSystem.class});
      remember.setAccessible(true);
      remember.invoke(null, new Object[] {root, conf, this});
    } catch (ReflectiveOperationException error) {
      return;
    }
  }

  private static class Raw extends RawLocalFileSystem {
    /** Hadoop's own makes an error for each file that does not exist. */
    public boolean exists(Path path) {
      return pathToFile(path).exists();
    }

    /** Hadoop's own looks at each folder above this one. */
    public boolean mkdirs(Path folder) throws IOException {
      return pathToFile(folder).isDirectory() || super.mkdirs(folder);
    }

    public void setPermission(Path path, FsPermission permission) throws IOException {
      PosixFileAttributeView view = (PosixFileAttributeView) Files.getFileAttributeView(
          pathToFile(path).toPath(), PosixFileAttributeView.class, new LinkOption[0]);
      if (view == null || permission.getStickyBit()) {
        super.setPermission(path, permission);
      } else {
        view.setPermissions(PosixFilePermissions.fromString(permission.toString()));
      }
    }
  }
}
